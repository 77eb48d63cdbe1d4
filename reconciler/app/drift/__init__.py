"""Use cases about live values changed outside kquota: one observation, or a loop."""
