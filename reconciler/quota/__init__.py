"""Kafka client quotas: values, comparison and plans. Pure: no I/O, clock, log or third-party package."""
