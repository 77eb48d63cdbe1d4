"""Recommended limits: candidate limits, trials on evidence, and the smallest limit that meets the promise of a tier."""
