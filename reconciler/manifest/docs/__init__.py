"""Reference pages that are generated from the schemas."""
