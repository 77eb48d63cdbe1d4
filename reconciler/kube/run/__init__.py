"""The operator process: reconciliation loops, cluster assignments, guards, shutdown and preflight checks."""
