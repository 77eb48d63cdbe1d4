"""What a run reports: previews, outcomes, reconciliations and flat rows."""
