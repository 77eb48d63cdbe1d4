"""Recorded use: ingest, store, reports and Spark jobs; its models are in ``reconciler.usage``. Nothing here alters a cluster."""
