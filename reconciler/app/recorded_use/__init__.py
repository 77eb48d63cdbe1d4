"""Use cases of recorded use: ingest, what-if, recommendations, reports."""
