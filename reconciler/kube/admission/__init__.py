"""The webhook that warns at admission, and what it warns about."""
