"""The assembly of one day of one cluster: from points to samples."""
