r"""JSON text to the trees of the YAML parser, with line and column, so that one reader of a format accepts both.

The strict reader of YAML cannot do this: JSON's escapes (``\/``, surrogate pairs) are not YAML's.
"""

import bisect
import json
import re
from typing import Final

from reconciler.errors import ManifestErrors, Problem
from reconciler.manifest.syntax.nodes import (
    MappingEntry,
    MappingNode,
    Node,
    ScalarNode,
    SequenceNode,
)

MAX_DEPTH: Final = 200
_BLANK: Final = re.compile(r"[ \t\r\n]*")
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_ATOM: Final = re.compile(r"true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


def looks_like_json(text: str) -> bool:
    """Whether a text begins like a JSON object or array."""
    return text.lstrip("\ufeff \t\r\n")[:1] in {"{", "["}


def read(text: str, path: str) -> Node:
    """Parse a JSON text.

    Raises:
        ManifestErrors: It is not JSON, has a duplicate key, or is nested too deep.
    """
    reading = _JsonParser(text.removeprefix("\ufeff"), path)
    root, at = reading.value(0, 0)
    at = reading.skip(at)
    if at != len(reading.text):
        raise reading.wrong(at, "unexpected content after the end of the document")
    return root


class _JsonParser:
    """Parser of one text; positions are offsets into it."""

    def __init__(self, text: str, path: str) -> None:
        self.text = text
        self._path = path
        self._lines = [0, *(match.end() for match in re.finditer("\n", text))]

    def wrong(self, at: int, message: str) -> ManifestErrors:
        line, column = self._place(at)
        return ManifestErrors([Problem(self._path, line, column, f"not JSON: {message}")])

    def _place(self, at: int) -> tuple[int, int]:
        line = bisect.bisect_right(self._lines, at)
        return line, at - self._lines[line - 1] + 1

    def skip(self, at: int) -> int:
        match = _BLANK.match(self.text, at)
        return match.end() if match else at

    def value(self, at: int, depth: int) -> tuple[Node, int]:
        at = self.skip(at)
        if depth > MAX_DEPTH:
            raise self.wrong(at, f"nested more than {MAX_DEPTH} levels deep")
        match self.text[at : at + 1]:
            case "{":
                return self._block(at, depth)
            case "[":
                return self._items(at, depth)
            case '"':
                return self._string(at)
            case _:
                match = _ATOM.match(self.text, at)
                if match is None:
                    raise self.wrong(
                        at, "a value is missing" if at < len(self.text) else "it ends too early"
                    )
                return ScalarNode(match.group(), True, *self._place(at)), match.end()  # noqa: FBT003 - a named tuple

    def _string(self, at: int) -> tuple[ScalarNode, int]:
        match = _STRING.match(self.text, at)
        if match is None:
            raise self.wrong(at, "a string does not end on its line")
        try:
            content: str = json.loads(match.group())
        except json.JSONDecodeError as error:
            raise self.wrong(at + error.pos, error.msg) from None
        return ScalarNode(content, False, *self._place(at)), match.end()  # noqa: FBT003 - a named tuple

    def _block(self, start: int, depth: int) -> tuple[MappingNode, int]:
        entries: dict[str, MappingEntry] = {}
        at = self.skip(start + 1)
        if self.text[at : at + 1] != "}":
            while True:
                at = self.skip(at)
                if self.text[at : at + 1] != '"':
                    raise self.wrong(at, "a key in double quotes is missing")
                key, end = self._string(at)
                if key.text in entries:
                    raise self.wrong(at, f"key {key.text!r} is given twice")
                end = self.skip(end)
                if self.text[end : end + 1] != ":":
                    raise self.wrong(end, "a colon is missing")
                node, at = self.value(end + 1, depth + 1)
                entries[key.text] = MappingEntry(key, node)
                at = self.skip(at)
                if self.text[at : at + 1] != ",":
                    break
                at += 1
        return MappingNode(entries, *self._place(start)), self._expect_close(at, "}")

    def _items(self, start: int, depth: int) -> tuple[SequenceNode, int]:
        nodes: list[Node] = []
        at = self.skip(start + 1)
        if self.text[at : at + 1] != "]":
            while True:
                node, at = self.value(at, depth + 1)
                nodes.append(node)
                at = self.skip(at)
                if self.text[at : at + 1] != ",":
                    break
                at += 1
        return SequenceNode(tuple(nodes), *self._place(start)), self._expect_close(at, "]")

    def _expect_close(self, at: int, mark: str) -> int:
        if self.text[at : at + 1] != mark:
            raise self.wrong(at, f"{mark!r} is missing")
        return at + 1
