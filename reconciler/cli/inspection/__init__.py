"""Commands that read a cluster or files and change nothing in a cluster."""
