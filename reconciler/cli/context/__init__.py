"""From options to targets, documents, records, connections and prepared plans."""
