"""Configuration of the operator and its clusters: settings, credentials, client sessions and limits."""
