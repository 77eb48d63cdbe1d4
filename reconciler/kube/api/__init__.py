"""The Kubernetes API server: access, requests, errors and custom resources."""
