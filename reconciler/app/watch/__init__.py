"""Follows a branch of a git repository and applies it to its clusters, without Kubernetes."""
