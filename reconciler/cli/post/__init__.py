"""``kquota post``: plans as comments on pull requests, drift as issues."""
