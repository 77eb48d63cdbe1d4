"""``kquota usage``: one module per command or group of commands."""
