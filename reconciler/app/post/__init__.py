"""Posts plans, outcomes and drift to a code host: as a comment, an issue or files of a CI job."""
