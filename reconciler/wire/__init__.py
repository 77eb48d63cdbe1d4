"""Kafka's bytes. PURE: values in, bytes out and back; no sockets, clocks, logs or randomness.

Nothing in this package knows what a quota means: entity types and quota keys are plain text here.
"""
