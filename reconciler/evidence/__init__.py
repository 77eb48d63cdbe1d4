"""Recorded use: ingest, store, models and Spark jobs. Nothing here alters a cluster."""
