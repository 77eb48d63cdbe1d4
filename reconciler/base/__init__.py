"""Shared ground without domain knowledge: files, bounded JSON, redaction, characters, HTTP, time."""
