"""Kafka client quotas as code. Importing the package only defines its version."""

__version__ = "0.1.0"

RELEASED = False
"""Whether the package index has this version. The release workflow refuses a tag while it is False."""

DOCUMENTATION = "https://github.com/kafka-quotas/kafka-quota-reconciler/blob/main/docs"
"""Address of the documentation, for links in comments, issues and statuses."""
