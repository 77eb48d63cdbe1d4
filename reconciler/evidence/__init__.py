"""Recorded use: ingest, store, reports and Spark jobs; its models are in ``reconciler.usage``. Never alters a cluster."""

# Decisions: docs/adr/recorded-use-tables.md, docs/adr/samples-not-points.md,
# docs/adr/recorded-use-ingest.md.
