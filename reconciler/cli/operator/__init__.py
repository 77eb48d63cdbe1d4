"""Commands around the Kubernetes operator: operator, reconcile, overrides of custom resources."""
