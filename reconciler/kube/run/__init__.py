"""The operator process: reconciliation loops, cluster assignments, guards and shutdown."""

# Decision: docs/adr/partial-reconciliation.md.
