"""Analyses of recorded use: each is one function over Arrow tables, run by processes of this machine or by Spark."""
