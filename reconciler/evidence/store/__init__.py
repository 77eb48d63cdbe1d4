"""Stores tables as units that are committed atomically, files named by their content, and the evidence for previews."""
