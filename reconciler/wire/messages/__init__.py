"""Kafka messages: one module per API, named as in the Kafka protocol."""
