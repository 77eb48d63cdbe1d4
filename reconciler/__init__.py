"""Kafka client quotas as code. Importing the package does nothing but say its version."""

__version__ = "0.1.0"

RELEASED = False
"""Whether the package index has this version. The release workflow refuses a tag while it is False."""
