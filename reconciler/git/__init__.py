"""Which revision, which files: read-only questions to the ``git`` command. Nothing here fetches or changes a work tree."""
