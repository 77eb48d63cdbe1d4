"""Recorded use as data frames: rollups, simulation, recommendation, broker load and report rows."""
