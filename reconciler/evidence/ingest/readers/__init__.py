"""Readers of Prometheus and of OpenMetrics text: what a source has, as recorded series."""
