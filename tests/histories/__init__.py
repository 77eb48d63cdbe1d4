"""Histories of registers: whether the sent writes explain the responses of brokers."""
