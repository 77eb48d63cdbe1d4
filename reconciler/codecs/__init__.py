"""JSON documents that kquota writes and reads back: one module for each, with the reader beside the writer."""
