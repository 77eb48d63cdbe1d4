"""Stores tables as units that are replaced whole, one file for each table, cluster and day, and the evidence for previews."""
