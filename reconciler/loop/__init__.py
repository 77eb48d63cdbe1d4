"""Serial passes over a cluster, again and again: what ``operator`` and ``watch`` share. Knows no Kubernetes."""
