"""TLS contexts, and the key stores and PEM blocks that they are built from."""
