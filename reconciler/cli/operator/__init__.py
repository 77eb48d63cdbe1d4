"""Commands for the Kubernetes operator: operator, reconcile."""
