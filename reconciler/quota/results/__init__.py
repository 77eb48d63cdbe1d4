"""Results of a run: previews, outcomes and reconciliations."""
