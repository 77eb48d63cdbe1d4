"""Imports recorded use: readers, metric dialects, and the assembly of samples. Does not use Spark."""
