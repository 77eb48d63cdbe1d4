"""Learning the shape of a document: proving, from the places in its tree, which cut value is which field.

Nothing is learned where the proof fails: anchors, tags, block scalars, lists, scalars over several lines, fields
that shapes do not know. Such documents keep going through the strict reader.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from reconciler.manifest import document_templates
from reconciler.manifest.document import ClientQuota, DocumentDeclined
from reconciler.manifest.document_templates import (
    DocumentTemplate,
    Skeleton,
    SlotReader,
    TemplateFiller,
    TemplateMatch,
)
from reconciler.manifest.schema_names import ACCEPT
from reconciler.manifest.syntax.nodes import (
    MappingNode,
    Node,
    Path,
    ScalarNode,
    SequenceNode,
    find,
    key_place,
)
from reconciler.manifest.syntax.yaml_parser import DocumentText
from reconciler.quota.keys import COLUMNS, RULES
from reconciler.quota.planner.desired_state import Lines

MAX_SHAPES: Final = 1_000
"""More layouts than this are read, but not remembered."""

_CLEVER: Final = re.compile(r"[&*!|>%\[\]?`\0]")
"""What no learned skeleton holds: anchors, aliases, tags, block scalars, directives, lists, complex keys."""

_SLOTS: Final[Mapping[str, SlotReader]] = {
    "user": document_templates.name,
    "clientId": document_templates.name,
    "ip": document_templates.address,
}


class TemplateCache:
    """The layouts that one load has seen. Its state is the layouts and the filler's memory of values."""

    def __init__(self) -> None:
        self._shapes: dict[Skeleton, DocumentTemplate | None] = {}
        self._filler = TemplateFiller()

    def read(self, piece: DocumentText, path: str) -> TemplateMatch | None:
        """The document in a piece, or ``None`` if the strict reader has to look at it."""
        skeleton, values = document_templates.cut(piece.text)
        shape = self._shapes.get(skeleton)
        if shape is None:
            return None
        try:
            return self._filler.filled(shape, values, piece.line, path)
        except DocumentDeclined:
            return None

    def learn(self, piece: DocumentText, root: Node, quota: ClientQuota) -> None:
        """Remember the layout of a piece that holds one document, which was accepted as this quota."""
        skeleton, _ = document_templates.cut(piece.text)
        if skeleton in self._shapes or len(self._shapes) >= MAX_SHAPES:
            return
        clever = any(isinstance(part, str) and _CLEVER.search(part) for part in skeleton)
        self._shapes[skeleton] = None if clever else _shape(piece, root)
        expected = (quota.cluster, quota.declaration)
        if self.read(piece, quota.declaration.path) != expected:
            self._shapes[skeleton] = None


class _ScalarSpan(NamedTuple):
    """What a scalar covers on its line, quotes included; both count from 0 in the piece."""

    line: int
    start: int
    end: int


class _ScalarLayout(NamedTuple):
    """Where the scalars of a tree stand in a text.

    Attributes:
        lines: The text's lines.
        first: Number that the tree gives to the first of them.
        values: Span of each scalar that is no key -> its path.
        keys: Spans of the keys.
    """

    lines: list[str]
    first: int
    values: dict[_ScalarSpan, Path]
    keys: set[_ScalarSpan]

    def add(self, node: Node, path: Path) -> bool:
        """Collect a node's scalars; whether every one of them stands on its line letter by letter."""
        match node:
            case ScalarNode():
                span = _span(node, self.lines, self.first)
                if span is not None:
                    self.values[span] = path
                return span is not None
            case MappingNode(entries):
                for text, (key, value) in entries.items():
                    span = _span(key, self.lines, self.first)
                    if span is None or not self.add(value, (*path, text)):
                        return False
                    self.keys.add(span)
                return True
            case SequenceNode():
                return False


def _shape(piece: DocumentText, root: Node) -> DocumentTemplate | None:
    layout = _ScalarLayout(piece.text.split("\n"), piece.line, {}, set())
    if not layout.add(root, ()):
        return None
    positions = _positions(piece.text, layout)
    return None if positions is None else _assigned(positions, root, piece.line)


def _span(scalar: ScalarNode, lines: list[str], first: int) -> _ScalarSpan | None:
    line, start = scalar.line - first, scalar.column - 1
    remainder = lines[line][start:]
    quotes = ("",) if scalar.plain else ('"', "'")
    for quote in quotes:
        scalar_text = f"{quote}{scalar.text}{quote}"
        if scalar_text and remainder.startswith(scalar_text):
            return _ScalarSpan(line, start, start + len(scalar_text))
    return None


def _positions(text: str, layout: _ScalarLayout) -> dict[Path, int] | None:
    """Path of each value -> its position in the cut; ``None`` unless cut and tree agree about every scalar.

    Each value that was cut out must be a whole scalar of the tree, each scalar of the tree that is no key must
    have been cut out, and no comment may touch a scalar.
    """
    positions: dict[Path, int] = {}
    comments: list[_ScalarSpan] = []
    for match in document_templates.VALUE_OR_COMMENT.finditer(text):
        group = 2 if match[1] is None else 1
        start, end = match.span(group)
        line, begin = text.count("\n", 0, start), text.rfind("\n", 0, start) + 1
        span = _ScalarSpan(line, start - begin, end - begin)
        if group == 2:
            comments.append(span)
        elif span in layout.values:
            positions[layout.values[span]] = len(positions)
        else:
            return None
    known_spans = layout.values.keys() | layout.keys
    touched = any(_touch(comment, scalar) for comment in comments for scalar in known_spans)
    return None if touched or len(positions) != len(layout.values) else positions


def _touch(comment: _ScalarSpan, scalar: _ScalarSpan) -> bool:
    return (
        comment.line == scalar.line
        and scalar.start < comment.end
        and comment.start - 1 < scalar.end
    )


def _assigned(positions: Mapping[Path, int], root: Node, first: int) -> DocumentTemplate | None:
    """Every value given to its field; ``None`` if one belongs to no field that shapes know."""
    unassigned = dict(positions)

    def take(*path: str) -> int | None:
        return unassigned.pop(path, None)

    api_version, kind = take("apiVersion"), take("kind")
    name, cluster = take("metadata", "name"), take("spec", "clusterRef", "name")
    namespace, deletion = take("metadata", "namespace"), take("spec", "deletionPolicy")
    suspend = take("spec", "suspend")
    user, client_id, ip = (_slot(unassigned, slot) for slot in _SLOTS)
    producer, consumer, request, mutation, connection = (
        take("spec", "limits", RULES[key].field) for key in COLUMNS
    )
    labels, annotations = _below(unassigned, "labels"), _below(unassigned, "annotations")
    if unassigned or api_version is None or kind is None or name is None or cluster is None:
        return None
    return DocumentTemplate(
        api_version=api_version,
        kind=kind,
        namespace=namespace,
        name=name,
        cluster=cluster,
        slots=(user, client_id, ip),
        limits=(producer, consumer, request, mutation, connection),
        deletion_policy=deletion,
        suspend=suspend,
        labels=tuple(sorted(labels.items())),
        annotations=tuple(annotations.values()),
        accepted=tuple(
            sorted(
                (name.removeprefix(ACCEPT), position)
                for name, position in annotations.items()
                if name.startswith(ACCEPT)
            )
        ),
        line=root.line - first,
        lines=_limit_lines(root, first),
    )


def _slot(unassigned: dict[Path, int], slot: str) -> tuple[SlotReader, int]:
    for kind, reader in (("name", _SLOTS[slot]), ("default", document_templates.default)):
        position = unassigned.pop(("spec", "entity", slot, kind), None)
        if position is not None:
            return reader, position
    return document_templates.absent, 0


def _below(unassigned: dict[Path, int], field: str) -> dict[str, int]:
    paths = [path for path in unassigned if path[:2] == ("metadata", field) and len(path) == 3]
    return {str(path[2]): unassigned.pop(path) for path in paths}


def _limit_lines(root: Node, first: int) -> Lines:
    def line(field: str) -> int:
        path = ("spec", "limits", field)
        return key_place(root, path)[0] - first if find(root, path) is not None else -1

    producer, consumer, request, mutation, connection = (line(RULES[key].field) for key in COLUMNS)
    return producer, consumer, request, mutation, connection
