"""JSON documents that kquota writes and reads back: one module for each, with its reader and its writer.

What a reader refuses (a damaged or edited document, another kind or format) is a ``ConfigError`` with the place.
"""
