"""Plans, outcomes and drift for a code host: what a document says there, as a comment, an issue or files of a pipeline."""
