"""Runs the quota model and the usage models for whole fleets on Spark. No network code."""
