"""The Kubernetes operator: custom resources in, statuses and events out. The only package that imports kopf and kubernetes."""
