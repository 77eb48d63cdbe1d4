"""Authentication of a client: SASL mechanisms, JAAS options, bearer tokens and Kerberos."""
