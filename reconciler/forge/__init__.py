"""GitHub and GitLab over REST: comments, issues, annotations, summaries."""
