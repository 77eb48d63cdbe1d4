"""The effect of changed limits on recorded use: query, bucket mapping, verdict, tier policy and result rows."""
