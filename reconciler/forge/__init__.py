"""Code hosts: comments, issues, annotations and reports on GitHub, and the pull requests that they belong to."""
