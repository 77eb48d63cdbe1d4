"""Histories of registers: whether the answers of brokers can be explained by the writes that were sent."""
