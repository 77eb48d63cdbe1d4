"""Reports of recorded use as tables, text, JSON, charts and HTML pages."""
