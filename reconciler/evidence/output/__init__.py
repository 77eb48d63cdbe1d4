"""Results of recorded-use jobs as text, JSON and documents."""
