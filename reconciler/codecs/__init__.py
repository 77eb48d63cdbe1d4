"""JSON documents that kquota writes and reads back: one module for each, with its reader and its writer."""
