"""Worlds in which ``kquota watch`` follows a branch of a git repository.

Real are the loop over the branch, the reading of commits, the state file and the loops of the clusters; the mirror of
the branch is in memory.
"""
