"""Reads the plain part of YAML, in which nearly all manifests are written, several times as fast as a parser of events.

The part: one mapping in block style. A value is a mapping, a text on the line of its key, plain or in quotes, or one
entry in braces; comments may stand everywhere. Everything else is left to ``yaml_parser.py``, which decides what YAML
is: a property test requires its tree, with the same places, for every text that is read here.
"""

import re
from collections.abc import Sequence
from typing import Final, TypeAlias

from reconciler.manifest.syntax.nodes import MappingEntry, MappingNode, ScalarNode

MOST_LEVELS: Final = 16
"""Maximum nesting that is read here; kquota's documents need nine levels."""

MOST_CHARACTERS: Final = 65_536
"""Longest text that is read here: all its lines are in memory at once, and a document has some hundred characters."""

_CHARACTER: Final = r"[A-Za-z0-9_./@+=~%^()-]"
_WORD: Final = rf"[A-Za-z0-9/]{_CHARACTER}*+"
_TEXT: Final = rf"[A-Za-z0-9/](?:\ ?(?:{_CHARACTER}|:(?={_CHARACTER})))*+"
_KEY: Final = r"[A-Za-z][A-Za-z0-9_./-]{0,200}+"
_QUOTED: Final = r"\"[^\"\\\n]*\"|'[^'\n]*'"

# Why not the parser alone: docs/adr/plain-manifests.md.
_LINE: Final = re.compile(
    rf"""(\ *+)
    (?:({_KEY}):(?:\ (?:({_TEXT}|{_QUOTED})|\{{({_KEY}):\ ({_WORD}|{_QUOTED})\}}))?)?
    \ *+(?:(?<![^\ ])\#.*)?""",
    re.VERBOSE,
)
"""A line: its indentation; unless it is blank, its key; and its value, or the key and the value in braces."""


def read_block(text: str, first_line: int) -> tuple[MappingNode, int] | None:
    """Return the mapping in a text and its number of nodes; ``None`` = the text has something else.

    Args:
        text: A document, perhaps with its marker; without characters that YAML forbids.
        first_line: The number of its first line.
    """
    if len(text) > MOST_CHARACTERS:
        return None
    if text.startswith("---\n"):
        text, first_line = text[4:], first_line + 1
    matches = list(map(_LINE.fullmatch, text.split("\n")))
    rows = [
        (line, len(match[1]), match.groups(""))
        for line, match in enumerate(matches, start=first_line)
        if match is not None and match[2]
    ]
    if not rows or None in matches:
        return None
    try:
        root, end = _mapping(rows, 0, 0)
    except _NotPlain:
        return None
    in_braces = sum(bool(row[3]) for _, _, row in rows)
    return None if end < len(rows) else (root, 1 + 2 * (len(rows) + in_braces))


class _NotPlain(Exception):
    """The text is not of the part that is read here."""


_Row: TypeAlias = tuple[int, int, tuple[str, ...]]
"""A line with a key: its number, its indentation, and the groups of :data:`_LINE`."""


def _mapping(rows: Sequence[_Row], at: int, level: int) -> tuple[MappingNode, int]:
    """Return the mapping that begins at a row, and the row after it."""
    first_line, depth, _ = rows[at]
    entries: dict[str, MappingEntry] = {}
    while at < len(rows):
        line, indent, (_, key, value, inner_key, inner_value) = rows[at]
        if indent != depth:
            break
        if key in entries:
            raise _NotPlain
        at += 1
        column = depth + len(key) + 3
        node: MappingNode | ScalarNode
        if value:
            node = _scalar(value, line, column)
        elif inner_key:
            name = ScalarNode(inner_key, plain=True, line=line, column=column + 1)
            scalar = _scalar(inner_value, line, column + len(inner_key) + 3)
            node = MappingNode({inner_key: MappingEntry(name, scalar)}, line, column)
        else:
            if at == len(rows) or rows[at][1] <= depth or level == MOST_LEVELS:
                raise _NotPlain
            node, at = _mapping(rows, at, level + 1)
        name = ScalarNode(key, plain=True, line=line, column=depth + 1)
        entries[key] = MappingEntry(name, node)
    if at < len(rows) and rows[at][1] > depth:
        raise _NotPlain
    return MappingNode(entries, first_line, depth + 1), at


def _scalar(value: str, line: int, column: int) -> ScalarNode:
    is_quoted = value[0] in "\"'"
    text = value[1:-1] if is_quoted else value
    return ScalarNode(text, plain=not is_quoted, line=line, column=column)
