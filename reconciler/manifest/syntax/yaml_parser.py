"""Strict YAML: text to trees with line and column. The only module of the program that imports yaml.

A text is split at its document markers and each piece is parsed separately, so that a syntax error affects one
document and not the rest of the file. This split is exact: ``---`` at the start of a line followed by a blank is a
marker everywhere (YAML 1.2 rule c-forbidden), also inside quotes and block scalars.

Refused: duplicate keys, keys that are not plain scalars, tags, merge keys, directives, anchors with too many
aliased nodes, aliases inside their own anchor, deep nesting, and characters that are line breaks in YAML 1.1 but
not in 1.2. Anchors within bounds are allowed, because manifests use them for common limits.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import yaml
from msgspec import Struct

from reconciler.errors import Problem
from reconciler.manifest.syntax.block_reader import read_block
from reconciler.manifest.syntax.nodes import (
    MappingEntry,
    MappingNode,
    Node,
    ScalarNode,
    SequenceNode,
)

MAX_DEPTH: Final = 32
"""Maximum nesting; kquota's documents need nine levels."""

MAX_ALIASED_NODES: Final = 10_000
"""Maximum number of nodes that the aliases of one document may repeat."""

MAX_FILE_NODES: Final = 4_000_000
"""Keys, values, lists and mappings of one file; 100,000 documents have about 2.7 million."""

MAX_TREE_NODES: Final = 800_000
"""The same for one document or list of documents, which is in memory as a whole; a list of 20,000 has at most so many."""

MAX_NODES: Final = 8_000_000
"""The same for all files of a run. Reading a node takes some microseconds, so this also limits the time."""

MAX_PROBLEMS: Final = 1_000
"""Reading stops after this number of problems in a run: who reads them corrects these first."""

MANY_PROBLEMS: Final = (
    f"reading stopped after {MAX_PROBLEMS} problems; there may be more. Correct these first"
)

_MARKER: Final = re.compile(r"\n---(?=[ \t\r\n]|\Z)")
_DIRECTIVES_AND_ENDS: Final = ("%", "...")
"""Beginnings of a line that make the split inexact."""

# Everything except what YAML 1.1 and 1.2 both allow, less a stray BOM, the line breaks of 1.1 alone (NEL, LS, PS)
# and a carriage return on its own, which editors and git do not count as a line.
FORBIDDEN: Final = re.compile(
    "[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]|\r(?!\n)"
)

# PyYAML's classes, whose stubs are incomplete.
_Event: TypeAlias = Any
_Mark: TypeAlias = Any


class TooManyNodes(yaml.MarkedYAMLError):
    """A document, a file, or all files of a run, have too many nodes, or the run has too many problems."""


class NodeBudget(Struct, kw_only=True):
    """The number of nodes that may still be read."""

    file: int = MAX_FILE_NODES
    total: int = MAX_NODES
    left_in_file: int = 0
    remaining: int = 0

    def __post_init__(self) -> None:
        self.left_in_file, self.remaining = self.file, self.total

    @property
    def is_spent(self) -> bool:
        """Whether no more nodes may be read in this run."""
        return self.remaining <= 0

    @property
    def most(self) -> int:
        """Maximum number of nodes of the next document."""
        return min(self.remaining, self.left_in_file, MAX_TREE_NODES)

    def begin_file(self) -> None:
        """Start the next file."""
        self.left_in_file = self.file

    def spend(self, count: int) -> None:
        """Subtract nodes that were read."""
        self.left_in_file -= count
        self.remaining -= count

    def excess(self, mark: _Mark) -> TooManyNodes:
        """Return the error at the first node above the limit."""
        excess_text = min(
            (self.remaining, f"the files together hold more than {self.total}"),
            (self.left_in_file, f"the file holds more than {self.file}"),
            (MAX_TREE_NODES, f"the document holds more than {MAX_TREE_NODES}"),
        )[1]
        return TooManyNodes(
            problem=f"{excess_text} keys and values; split it, or name fewer paths",
            problem_mark=mark,
        )


class _YamlParser(Protocol):
    def get_event(self) -> _Event: ...


class _PythonYamlParser(yaml.reader.Reader, yaml.scanner.Scanner, yaml.parser.Parser):
    """PyYAML's own parser, used if PyYAML was built without libyaml."""

    def __init__(self, text: str) -> None:
        yaml.reader.Reader.__init__(self, text)
        yaml.scanner.Scanner.__init__(self)
        yaml.parser.Parser.__init__(self)


def _fastest() -> Callable[[str], _YamlParser]:
    try:
        from yaml._yaml import CParser  # noqa: PLC0415 - absent where PyYAML has no libyaml
    except ImportError:
        return _PythonYamlParser
    parser: Callable[[str], _YamlParser] = CParser
    return parser


PARSER: Final = _fastest()


class DocumentText(NamedTuple):
    """The text between two document markers."""

    text: str  # from its own `---` (if it has one) up to the next
    line: int  # number of its first line in the file, from 1


def pieces(text: str) -> Iterator[DocumentText]:
    """Split a file at its document markers; one piece if it has no marker, directives or ``...``."""
    text = text.removeprefix("\ufeff")
    if any(text.startswith(marker) or f"\n{marker}" in text for marker in _DIRECTIVES_AND_ENDS):
        yield DocumentText(text, 1)
        return
    line = 1
    begin = 0
    for match in _MARKER.finditer(text):
        start = match.start() + 1
        yield DocumentText(text[begin:start], line)
        line += text.count("\n", begin, start)
        begin = start
    yield DocumentText(text[begin:], line)


def read(
    piece: DocumentText, path: str, problems: list[Problem], budget: NodeBudget | None = None
) -> list[Node]:
    """Return the documents of a piece, without empty ones. Problems are added to ``problems``.

    Args:
        budget: Number of nodes that may be read; ``None`` = the maximum of one file.
    """
    budget = NodeBudget() if budget is None else budget
    block = read_block(piece.text, piece.line)
    if block is not None and block[1] <= budget.most:
        budget.spend(block[1])
        return [block[0]]
    match = FORBIDDEN.search(piece.text)
    if match:
        problems.append(_forbidden(piece, path, match.start()))
        return []
    return parse(piece, path, problems, budget)


def parse(
    piece: DocumentText, path: str, problems: list[Problem], budget: NodeBudget
) -> list[Node]:
    """Return the documents of a piece as :func:`read` does, whatever of YAML they use."""
    reading = _NodeBuilder(PARSER(piece.text), path, piece.line, problems, budget)
    try:
        return reading.documents()
    except TooManyNodes as error:
        mark = error.problem_mark
        place = (piece.line + mark.line, mark.column + 1) if mark else (piece.line, 0)
        problems.append(Problem(path, *place, str(error.problem)))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problems.append(
            Problem(
                path,
                piece.line + (mark.line if mark else 0),
                mark.column + 1 if mark else 0,
                f"not YAML: {_syntax_words(error, piece)}",
            )
        )
    except yaml.YAMLError as error:
        problems.append(Problem(path, piece.line, 0, f"not YAML: {error}"))
    finally:
        budget.spend(reading.count)
    return []


def _syntax_words(error: yaml.MarkedYAMLError, piece: DocumentText) -> str:
    """Return what is wrong, with the line on which the construct begins that does not end as it should."""
    context, mark, begin = error.context, error.problem_mark, error.context_mark
    lines = piece.text.split("\n")
    if (
        mark is not None
        and mark.line < len(lines)
        and lines[mark.line].startswith("\t", mark.column)
    ):
        return "a tab is before the text; only blanks may indent it"
    if context and mark is not None and begin is not None and begin.line != mark.line:
        context = f"{context} from line {piece.line + begin.line}"
    return ": ".join(part for part in (context, error.problem) if part)


def _forbidden(piece: DocumentText, path: str, at: int) -> Problem:
    before = piece.text[:at]
    code = ord(piece.text[at])
    escape = f"\\x{code:02X}" if code < 0x100 else f"\\u{code:04X}"
    line_end = "end lines with a line feed, or " if code == 0x0D else ""
    return Problem(
        path,
        piece.line + before.count("\n"),
        at - (before.rfind("\n") + 1) + 1,
        f"character U+{code:04X} is not allowed in YAML; {line_end}write {escape} in double quotes",
    )


class _Anchor(NamedTuple):
    node: Node
    size: int


class _NodeBuilder:
    """One parser run over one piece: its nodes, and the anchors of the current document."""

    def __init__(
        self,
        events: _YamlParser,
        path: str,
        first_line: int,
        problems: list[Problem],
        budget: NodeBudget,
    ) -> None:
        self._next = events.get_event
        self._path = path
        self._offset = first_line
        self._problems = problems
        self._anchors: dict[str, _Anchor | None] = {}
        self._aliased = 0
        self.count = 0
        self._budget = budget
        self._most = budget.most

    def documents(self) -> list[Node]:
        documents: list[Node] = []
        while True:
            event = self._next()
            kind = type(event)
            if kind is yaml.StreamEndEvent:
                return documents
            if kind is yaml.DocumentStartEvent:
                if event.version or event.tags:
                    self._refuse(event.start_mark, "directives are not used in manifests")
                self._anchors = {}
                self._aliased = 0
                root = self._node(self._next(), 0)
                if not (isinstance(root, ScalarNode) and root.plain and not root.text):
                    documents.append(root)

    def _refuse(self, mark: _Mark, message: str) -> None:
        if len(self._problems) >= MAX_PROBLEMS:
            raise TooManyNodes(problem=MANY_PROBLEMS, problem_mark=mark)
        self._problems.append(
            Problem(self._path, self._offset + mark.line, mark.column + 1, message)
        )

    def _node(self, event: _Event, depth: int) -> Node:
        mark = event.start_mark
        kind = type(event)
        self.count += 1
        if self.count > self._most:
            raise self._budget.excess(mark)
        if kind is yaml.ScalarEvent:
            if event.tag is not None:
                self._refuse(mark, f"tags are not used in manifests; leave out {event.tag!r}")
            scalar = ScalarNode(
                event.value,
                event.style is None or event.style == "",
                self._offset + mark.line,
                mark.column + 1,
            )
            if event.anchor is not None:
                self._anchors[event.anchor] = _Anchor(scalar, 1)
            return scalar
        if kind is yaml.AliasEvent:
            return self._alias(event)
        if depth >= MAX_DEPTH:
            raise yaml.MarkedYAMLError(
                problem=f"nested more than {MAX_DEPTH} levels deep", problem_mark=mark
            )
        if event.tag is not None:
            self._refuse(mark, f"tags are not used in manifests; leave out {event.tag!r}")
        before = self.count + self._aliased
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        node = (
            self._block(mark, depth) if kind is yaml.MappingStartEvent else self._items(mark, depth)
        )
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchor(node, self.count + self._aliased - before + 1)
        return node

    def _block(self, mark: _Mark, depth: int) -> MappingNode:
        entries: dict[str, MappingEntry] = {}
        while True:
            event = self._next()
            if type(event) is yaml.MappingEndEvent:
                return MappingNode(entries, self._offset + mark.line, mark.column + 1)
            key = self._node(event, depth + 1)
            value = self._node(self._next(), depth + 1)
            if not isinstance(key, ScalarNode):
                self._refuse(event.start_mark, "a key must be a plain name")
            elif key.plain and key.text == "<<":
                self._refuse(event.start_mark, "merge keys are not used in manifests")
            elif key.text in entries:
                first = entries[key.text].key.line
                # Two documents without a marker between them look like one with every key twice.
                is_next_document = not depth and key.text == "apiVersion"
                advice = "; a line --- separates documents" if is_next_document else ""
                self._refuse(
                    event.start_mark,
                    f"key {key.text!r} is given twice, first on line {first}{advice}",
                )
            else:
                entries[key.text] = MappingEntry(key, value)

    def _items(self, mark: _Mark, depth: int) -> SequenceNode:
        nodes: list[Node] = []
        while True:
            event = self._next()
            if type(event) is yaml.SequenceEndEvent:
                return SequenceNode(tuple(nodes), self._offset + mark.line, mark.column + 1)
            nodes.append(self._node(event, depth + 1))

    def _alias(self, event: _Event) -> Node:
        mark = event.start_mark
        nothing = ScalarNode("", plain=False, line=self._offset + mark.line, column=mark.column + 1)
        if event.anchor not in self._anchors:
            self._refuse(mark, f"there is no anchor &{event.anchor} before this alias")
            return nothing
        anchor = self._anchors[event.anchor]
        if anchor is None:
            self._refuse(mark, f"alias *{event.anchor} refers to its own anchor")
            return nothing
        self._aliased += anchor.size
        if self._aliased > MAX_ALIASED_NODES:
            raise yaml.MarkedYAMLError(
                problem=f"aliases repeat more than {MAX_ALIASED_NODES} values in this document",
                problem_mark=mark,
            )
        return anchor.node
