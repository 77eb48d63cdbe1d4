"""The command of the Kubernetes operator."""
