"""YAML text as trees of nodes with line and column."""
