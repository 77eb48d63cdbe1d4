"""The validating webhook, the review of documents and their validation by a broker."""
