"""Use cases of recorded use: ingest, what-if, recommendations, and the inputs of jobs over many clusters."""
