"""Leader election by a Lease, and the watchdog that stops a process without it from writing."""
