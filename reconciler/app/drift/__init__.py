"""Use cases about live values that were changed outside kquota: one observation, or a loop of them."""
