"""Code hosts: comments, issues, annotations and reports on GitHub and GitLab, and finding what they belong to."""
