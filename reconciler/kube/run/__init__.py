"""The operator process: reconciliation loops, cluster assignments, guards, shutdown and preflight checks."""

# Decision: docs/adr/046-partial-reconciliations.md.
