"""Planted faults: ``python -m tests.mutants`` puts each into a copy of the project; the named tests must fail."""
