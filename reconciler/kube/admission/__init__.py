"""The validating webhook and the checks behind it."""
