"""HTML pages: their writer, their content about a cluster, and the files of every page."""
