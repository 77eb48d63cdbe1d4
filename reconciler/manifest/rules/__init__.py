"""Static rules of the documents that a JSON Schema cannot express, in CEL and in Python."""
