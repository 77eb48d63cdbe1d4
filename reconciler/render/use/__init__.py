"""Recorded use as sections, sentences and charts."""
