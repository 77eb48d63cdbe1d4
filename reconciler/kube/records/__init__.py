"""Ownership records in ConfigMaps, whose document each belongs to, and the finalizers that protect them."""
