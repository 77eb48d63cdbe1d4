"""Responses of the sandbox to cluster, configuration and quota requests."""
