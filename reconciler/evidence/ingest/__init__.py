"""Recorded use from outside: readers, the table of dialects, and what becomes of it. No Spark."""
