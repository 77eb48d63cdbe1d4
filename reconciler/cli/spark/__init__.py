"""``kquota spark``: one module per command."""
