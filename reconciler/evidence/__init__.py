"""Recorded use: ingest, store, reports and Spark jobs; its models are in ``reconciler.usage``. Never alters a cluster."""

# Decisions: docs/adr/031-table-format-of-the-store.md, docs/adr/044-samples-not-points.md,
# docs/adr/049-recorded-use-is-read-in-one-way.md.
