"""Names and files of exported documents."""
