"""Which clusters a request means: their trusted configuration, documents, records and connections."""
