"""Values of the usage, capacity and client reports."""
