"""The operator process: reconciliation loops, cluster assignments, guards, shutdown and preflight checks."""

# Decision: docs/adr/partial-reconciliation.md.
