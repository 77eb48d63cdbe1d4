"""Watch events, listings and the cache of custom resources."""
