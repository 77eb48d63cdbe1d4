"""Recommended limits: candidate limits, trials on evidence, and the smallest limit that keeps the promise of a tier."""
