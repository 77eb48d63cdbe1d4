"""Recorded use as use cases: ingest, what-if, recommendations, and the inputs of jobs over many clusters."""
