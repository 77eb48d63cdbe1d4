"""Code hosts: comments, issues, annotations and reports on GitHub and GitLab, and the pull requests that they belong to."""
