"""Results of a run: previews with the digest of their effect, outcomes and reconciliations."""
