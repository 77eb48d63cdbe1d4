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

MOST_CHARACTERS: Final = 65_536
"""Longest text that is read here: all its lines are in memory at once, and a document has some hundred characters."""

_CHARACTER: Final = r"[A-Za-z0-9_./@+=~%^()-]"
_WORD: Final = rf"[A-Za-z0-9/]{_CHARACTER}*+"
_TEXT: Final = rf"{_WORD}(?:(?:\ ?:|\ ){_CHARACTER}++)*+"
_KEY: Final = r"[A-Za-z][A-Za-z0-9_./-]{0,200}+"
_UNUSUAL: Final = r"\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff"
"""Characters that YAML forbids, or that end a line."""

_QUOTED: Final = rf"\"[^\"\\\t{_UNUSUAL}]*\"|'[^'\t{_UNUSUAL}]*'"

# Why not the parser alone: docs/adr/plain-manifests.md.
_LINES: Final = re.compile(
    rf"""(\ *+)
    (?:({_KEY}):(?:\ (?:({_TEXT}|{_QUOTED})|\{{({_KEY}):\ ({_WORD}|{_QUOTED})\}}))?)?
    \ *+(?:(?<![^\ \n])\#[^{_UNUSUAL}]*)?(?:\n|\Z)
    |(.+)""",
    re.VERBOSE,
)
"""A line: its indentation; unless it is blank, its key; and its value, or the key and the value in braces. The last group is
the rest of a line that is not of the part that is read here."""


def read_block(text: str, first_line: int) -> tuple[MappingNode, int] | None:
    """Return the mapping in a text and its number of nodes; ``None`` = the text has something else.

    Args:
        text: A document, perhaps with its marker.
        first_line: The number of its first line.
    """
    if len(text) > MOST_CHARACTERS:
        return None
    if text.startswith("---\n"):
        text, first_line = text[4:], first_line + 1
    tree, count = _Tree(), 1
    rows = enumerate(_LINES.findall(text), start=first_line)
    for line, (blanks, key, value, inner_key, inner_value, unreadable) in rows:
        if unreadable:
            return None
        if not key:
            continue
        indent = len(blanks)
        is_elsewhere = indent != tree.indent or tree.is_open
        if (is_elsewhere and not tree.moves_to(line, indent)) or key in tree.entries:
            return None
        name = ScalarNode(key, plain=True, line=line, column=indent + 1)
        column = indent + len(key) + 3
        if value:
            tree.entries[key] = MappingEntry(name, _scalar(value, line, column))
        elif inner_key:
            tree.entries[key] = MappingEntry(name, _in_braces(inner_key, inner_value, line, column))
        else:
            tree.name, tree.is_open = name, True
        count += 4 if inner_key else 2
    return None if tree.root is None or tree.is_open else (tree.root, count)


class _Tree:
    """The mappings of a document up to a line.

    Attributes:
        root: The outermost mapping.
        indent: The indentation of the current mapping.
        entries: Those of the current mapping.
        is_open: Whether the next line begins a mapping: the root, or that of a key.
        name: That key.
    """

    def __init__(self) -> None:
        self.root: MappingNode | None = None
        self.indent = -1
        self.entries: dict[str, MappingEntry] = {}
        self.is_open = True
        self.name: ScalarNode | None = None
        self._outer: list[tuple[int, dict[str, MappingEntry]]] = []

    def moves_to(self, line: int, indent: int) -> bool:
        """Begin a mapping at a line, or return to the one with its indentation; false = there is none."""
        if not self.is_open:
            while indent < self.indent:
                self.indent, self.entries = self._outer.pop()
            return indent == self.indent
        if indent <= self.indent or len(self._outer) > MOST_LEVELS:
            return False
        node = MappingNode({}, line, indent + 1)
        if self.name is None:
            self.root = node
        else:
            self.entries[self.name.text] = MappingEntry(self.name, node)
        self._outer.append((self.indent, self.entries))
        self.indent, self.entries, self.is_open = indent, node.entries, False
        return True


def _in_braces(key: str, value: str, line: int, column: int) -> MappingNode:
    name = ScalarNode(key, plain=True, line=line, column=column + 1)
    return MappingNode(
        {key: MappingEntry(name, _scalar(value, line, column + len(key) + 3))}, line, column
    )


def _scalar(value: str, line: int, column: int) -> ScalarNode:
    if value[0] in "\"'":
        return ScalarNode(value[1:-1], plain=False, line=line, column=column)
    return ScalarNode(value, plain=True, line=line, column=column)
