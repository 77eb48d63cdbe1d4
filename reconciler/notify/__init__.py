"""Messages about drift and recovery to people and their tools: one file per destination."""
