"""Kafka's wire protocol. Pure: values in, bytes out and back; no sockets, clocks, logs or randomness.

Entity types and quota keys are plain text in this package.
"""
