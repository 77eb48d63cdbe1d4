"""Plans and reports on standard output or in a file, in the requested format."""
