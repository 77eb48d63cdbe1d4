"""Use cases that read clusters and change nothing: checks and the HTML report."""
