"""Follow a branch of a git repository and keep its clusters as declared, without Kubernetes."""
