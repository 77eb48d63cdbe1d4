"""Recorded use: ingest, store, reports and Spark jobs; its models are in ``reconciler.usage``. Never alters a cluster."""

# Decision: docs/adr/recorded-use-store.md.
