"""Read access to revisions and files with the ``git`` command; also a mirror of a branch, and refs with records."""
