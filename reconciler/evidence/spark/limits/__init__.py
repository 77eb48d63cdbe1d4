"""Limits as data frames: entities, precedence, effective limits."""
