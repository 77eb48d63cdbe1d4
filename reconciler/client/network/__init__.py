"""Connections to brokers: addresses, sockets, logins, sessions and cluster metadata."""
