"""Recorded use, and the effect of limits on it. Pure: standard library and NumPy (in ``kernel``), integers wherever equality matters."""
