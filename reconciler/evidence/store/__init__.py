"""Stored tables: units that are committed whole, files that are named by content, evidence for previews."""
