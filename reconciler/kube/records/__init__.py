"""Ownership records in statuses and ConfigMaps, and the finalizers that protect them."""
