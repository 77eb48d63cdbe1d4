"""Limits as data frames: entities, precedence, effective and unused limits."""
