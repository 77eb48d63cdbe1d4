"""Assembles the samples of one day and cluster from points."""
