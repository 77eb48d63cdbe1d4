"""Runs analyses on Spark."""
