"""Use cases that look at clusters and change nothing: checks and the HTML report."""
