"""Fuzzing of every reader of bytes and texts, guided by the lines that an input reaches.

make fuzz SECONDS=60      # all readers, a share of the time each
"""
