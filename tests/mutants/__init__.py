"""Planted faults: ``python -m tests.mutants`` puts each into a copy of the project and shows that named tests turn red."""
