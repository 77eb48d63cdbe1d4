"""Kafka client quotas as code. Importing the package does nothing but say its version."""

__version__ = "0.1.0"
