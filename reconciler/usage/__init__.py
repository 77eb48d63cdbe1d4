"""What was used, and what a limit would do to it. Pure: standard library only, integers wherever equality matters."""
