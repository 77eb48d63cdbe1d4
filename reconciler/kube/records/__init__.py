"""Ownership records in ConfigMaps, the presence of their documents, and the finalizers that protect them."""
