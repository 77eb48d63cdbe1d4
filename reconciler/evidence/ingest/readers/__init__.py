"""Readers of recorded series: the Prometheus HTTP API and files."""
