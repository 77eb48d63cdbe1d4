"""Commands that read a cluster or files and write to no cluster."""
