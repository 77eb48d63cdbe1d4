"""Where the records of what we own are kept: a file, a git ref, memory, or made from a revision; and the audit log."""
