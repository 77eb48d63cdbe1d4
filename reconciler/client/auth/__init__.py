"""Authentication of a client: SASL mechanisms, JAAS options and bearer tokens."""
