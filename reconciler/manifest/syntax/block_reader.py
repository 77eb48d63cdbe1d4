"""Reads the plain part of YAML, in which nearly all manifests are written, several times as fast as a parser of events.

The part: one mapping in block style. A value is a mapping, a text on the line of its key, plain or in quotes, or one
entry in braces; comments may stand everywhere. Everything else is left to ``yaml_parser.py``, which decides what YAML
is: a property test requires its tree, with the same places, for every text that is read here.
"""

import re
from typing import Final

from reconciler.manifest.syntax.nodes import MappingEntry, MappingNode, ScalarNode

MOST_LEVELS: Final = 16
"""Maximum nesting that is read here; kquota's documents need nine levels."""

_CHARACTER: Final = r"[A-Za-z0-9_./@+=~%^()-]"
_WORD: Final = rf"[A-Za-z0-9/]{_CHARACTER}*+"
_TEXT: Final = rf"[A-Za-z0-9/](?:\ ?(?:{_CHARACTER}|:(?={_CHARACTER})))*+"
_KEY: Final = r"[A-Za-z][A-Za-z0-9_./-]{0,200}+"
_QUOTED: Final = r"\"[^\"\\\n]*\"|'[^'\n]*'"

_LINE: Final = re.compile(
    rf"""^(\ *)
    (?:({_KEY}):(?:\ (?:({_TEXT}|{_QUOTED})|\{{({_KEY}):\ ({_WORD}|{_QUOTED})\}}))?)?
    \ *(?:(?<![^\ \n])\#[^\n]*)?\n""",
    re.MULTILINE | re.VERBOSE,
)
"""A line: its indentation; unless it is blank, its key; and its value, or the key and the value in braces."""


def read_block(text: str, first_line: int) -> tuple[MappingNode, int] | None:
    """Return the mapping in a text and its number of nodes; ``None`` = the text has something else.

    Args:
        text: A document, perhaps with its marker; without characters that YAML forbids.
        first_line: The number of its first line.
    """
    if text.startswith("---\n"):
        text, first_line = text[4:], first_line + 1
    if not text.endswith("\n"):
        text += "\n"
    rows: list[tuple[str, str, str, str, str]] = _LINE.findall(text)
    if len(rows) != text.count("\n"):
        return None
    root: MappingNode | None = None
    entries: dict[str, MappingEntry] = {}
    outer: list[tuple[int, dict[str, MappingEntry]]] = []  # the mappings around this one
    indent, count = 0, 0
    opened: ScalarNode | None = None  # the last key, if its value is a mapping on the lines below
    for line, (blanks, key, value, inner_key, inner_value) in enumerate(rows, start=first_line):
        if not key:
            continue
        depth = len(blanks)
        if root is None:
            root = MappingNode(entries, line, depth + 1)
            indent, count = depth, 1
        elif opened is not None:
            if depth <= indent or len(outer) >= MOST_LEVELS:
                return None
            outer.append((indent, entries))
            inner: dict[str, MappingEntry] = {}
            entries[opened.text] = MappingEntry(opened, MappingNode(inner, line, depth + 1))
            entries, indent, opened = inner, depth, None
        while depth < indent and outer:
            indent, entries = outer.pop()
        if depth != indent or key in entries:
            return None
        name = ScalarNode(key, True, line, depth + 1)
        column = depth + len(key) + 3
        count += 2
        if value:
            entries[key] = MappingEntry(name, _scalar(value, line, column))
        elif inner_key:
            scalar = _scalar(inner_value, line, column + len(inner_key) + 3)
            entry = MappingEntry(ScalarNode(inner_key, True, line, column + 1), scalar)
            entries[key] = MappingEntry(name, MappingNode({inner_key: entry}, line, column))
            count += 2
        else:
            opened = name
            entries[key] = MappingEntry(name, name)  # until its lines are read
    return None if root is None or opened is not None else (root, count)


def _scalar(value: str, line: int, column: int) -> ScalarNode:
    is_quoted = value[0] in "\"'"
    return ScalarNode(value[1:-1] if is_quoted else value, not is_quoted, line, column)
