"""What a change of limits does to recorded use: query, bucket mapping, verdict, policy of tiers and result rows."""
