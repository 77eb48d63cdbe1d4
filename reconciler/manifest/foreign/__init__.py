"""Readers of other tools' quota formats, to declarations. One module per tool; no I/O.

Values that no manifest can contain are listed with their place; ambiguous ones are noted or
listed, never guessed without a note.
"""
