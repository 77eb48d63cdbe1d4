"""Shared code without domain knowledge: files, bounded JSON, redaction, escaping, HTTP, time."""
