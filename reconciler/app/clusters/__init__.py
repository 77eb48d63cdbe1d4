"""The clusters of a request: their trusted configuration, documents, records and connections."""
