"""Stores of ownership records: a file, a git ref, memory, or derived from a revision; and the audit log."""
