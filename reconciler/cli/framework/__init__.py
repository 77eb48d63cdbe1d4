"""Console, exit codes, logs and the base classes of commands."""
