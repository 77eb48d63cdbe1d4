"""Leader election by a Lease, and what keeps a process without it from writing."""
