"""Other tools' own formats of quotas, read to declarations. One module per tool; nothing here does I/O.

What a format says and no manifest can hold is listed with its place; what can be read in two ways is noted or
listed, never guessed in silence.
"""
