"""Reading the ten-thousandth document like the second: documents that differ only in their values.

A repository of quotas holds thousands of documents and a handful of layouts. So a piece of text is cut into a
*skeleton* (everything that is not a value) and its *values*: safe plain scalars after ``: ``, what stands between
simple quotes, and comments. The first document with a skeleton goes through the strict reader, and what it found
is learned: which value is which field. Later documents with the same skeleton take their values from there.

Why that is exact. No value can change how YAML reads the text around it: a plain one has only letters, digits
and ``_ . / @ + = -`` or an inner colon; a quoted one has neither its quote nor a backslash nor a control
character; a comment ends at its line. So two texts with one skeleton give the same tree but for the values, provided
that in the learned one each value really was a scalar of that kind, or a comment, at that place. ``learn`` proves
this from the places in the tree, or learns nothing. Values go through the same checks as ever; if one fails, the
strict reader reads the document again and words the error. A property test holds both readers together.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from reconciler.manifest.document import (
    DEFAULT_NAMESPACE,
    ClientQuota,
    Declined,
    checked_name,
    deletion_policy,
    limit,
    resource_name,
)
from reconciler.manifest.nodes import Block, Items, Node, Path, Scalar, find, key_place
from reconciler.manifest.rules import canonical_ip
from reconciler.manifest.scalars import is_text
from reconciler.manifest.schema_names import API_VERSION, QUOTA
from reconciler.manifest.yaml_files import Piece
from reconciler.quota.desired import Declaration, Lines
from reconciler.quota.entity import ABSENT, DEFAULT, Entity, Slot
from reconciler.quota.keys import COLUMNS, RULES, Key
from reconciler.quota.state import Limits

MAX_SHAPES: Final = 1_000
"""More layouts than this are read, but not remembered."""

_CLEAN: Final = "\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029\\ud800-\\udfff\\ufeff\\ufffe\\uffff"
_VALUE: Final = re.compile(
    rf"""(
      (?<=:\ ) [A-Za-z0-9](?:[A-Za-z0-9_./@+=-]|:(?=[A-Za-z0-9]))* (?=\ *(?:[,}}]|\r?\n|\Z)|\ +\#)
    | (?<=:\ ") [^"\\{_CLEAN}]* (?=")
    | (?<=:\ ') [^'{_CLEAN}]* (?='(?!'))
    | (?:(?<=^\#)|(?<=\ \#)) [^{_CLEAN}]* (?=\r?\n|\Z)
    )""",
    re.VERBOSE | re.MULTILINE,
)
_CLEVER: Final = re.compile(r"[&*!|>%\[\]?`\0]")
"""What no learned skeleton holds: anchors, aliases, tags, block scalars, directives, lists, complex keys."""

_FIXED: Final[Mapping[Path, str]] = {("apiVersion",): API_VERSION, ("kind",): QUOTA}
_SLOTS: Final = ("user", "clientId", "ip")


class _Value(NamedTuple):
    """One value of a shape: its position among the values, and whether it is written without quotes."""

    position: int
    plain: bool


class _Limit(NamedTuple):
    key: Key
    value: _Value


class _Slot(NamedTuple):
    """What a slot of the entity is made of; ``position`` means nothing where the slot is absent."""

    reader: Callable[[str], Slot]
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """Where the fields of a document stand among its values, and on which line its parts begin (from 0; -1 = absent)."""

    fixed: tuple[tuple[int, str], ...]
    texts: tuple[int, ...]
    namespace: int | None
    name: int
    cluster: int
    slots: tuple[_Slot, _Slot, _Slot]
    limits: tuple[_Limit | None, ...]
    deletion_policy: int | None
    suspend: int | None
    labels: tuple[tuple[str, int], ...]
    annotations: tuple[int, ...]
    line: int
    lines: tuple[int, int, int, int, int]


class Shapes:
    """The layouts that one load has seen. Its only state is its caches."""

    def __init__(self) -> None:
        self._shapes: dict[tuple[str, ...], _Shape | None] = {}
        self._limits: dict[tuple[Key, bool, str], float] = {}
        self._names: dict[tuple[str, bool], str] = {}

    def quota(self, piece: Piece, path: str) -> ClientQuota | None:
        """The document in a piece, or ``None`` if the strict reader has to look at it."""
        parts = _VALUE.split(piece.text)
        shape = self._shapes.get(tuple(parts[::2]))
        if shape is None:
            return None
        try:
            return self._filled(shape, parts[1::2], piece.line, path)
        except Declined:
            return None

    def learn(self, piece: Piece, root: Node, quota: ClientQuota) -> None:
        """Remember the layout of a piece that holds one document, which was accepted as this quota."""
        skeleton = tuple(_VALUE.split(piece.text)[::2])
        if skeleton in self._shapes or len(self._shapes) >= MAX_SHAPES:
            return
        self._shapes[skeleton] = None if any(map(_CLEVER.search, skeleton)) else _shape(piece, root)
        if self.quota(piece, quota.declaration.path) != quota:
            self._shapes[skeleton] = None

    def _filled(self, shape: _Shape, values: list[str], first: int, path: str) -> ClientQuota:
        for index, wanted in shape.fixed:
            if values[index] != wanted:
                raise Declined
        for index in shape.texts:
            if not is_text(values[index]):
                raise Declined
        for index in shape.annotations:
            _short(values[index], 262_144)
        user, client_id, ip = shape.slots
        namespace = (
            DEFAULT_NAMESPACE
            if shape.namespace is None
            else self._known(values[shape.namespace], label=True)
        )
        name = resource_name(values[shape.name])
        return ClientQuota(
            cluster=self._known(values[shape.cluster], label=False),
            declaration=Declaration(
                document=f"{namespace}/{name}",
                entity=Entity(
                    (
                        user.reader(values[user.position]),
                        client_id.reader(values[client_id.position]),
                        ip.reader(values[ip.position]),
                    )
                ),
                limits=self._columns(shape, values),
                path=path,
                line=first + shape.line,
                lines=_lines(shape, first),
                deletion_policy=None
                if shape.deletion_policy is None
                else deletion_policy(values[shape.deletion_policy]),
                suspended=False if shape.suspend is None else _flag(values[shape.suspend]),
            ),
            labels={key: _short(values[index], 63) for key, index in shape.labels},
        )

    def _known(self, text: str, *, label: bool) -> str:
        """A name that thousands of documents repeat."""
        found = self._names.get((text, label))
        if found is None:
            found = self._names[text, label] = resource_name(text, label=label)
        return found

    def _columns(self, shape: _Shape, values: list[str]) -> Limits:
        one, two, three, four, five = (
            None if limit is None else self._limit(limit, values) for limit in shape.limits
        )
        return one, two, three, four, five

    def _limit(self, one: _Limit, values: list[str]) -> float:
        known = (one.key, one.value.plain, values[one.value.position])
        found = self._limits.get(known)
        if found is None:
            found = self._limits[known] = limit(one.key, known[2], plain=one.value.plain)
        return found


# ---- learning -------------------------------------------------------------------------------


class _Span(NamedTuple):
    line: int
    start: int
    end: int


def _shape(piece: Piece, root: Node) -> _Shape | None:
    """The shape of a piece, or ``None`` where it cannot be proved."""
    lines = piece.text.split("\n")
    scalars: dict[_Span, tuple[Path, bool]] = {}
    if not _lay_out(root, (), lines, piece.line, scalars):
        return None
    found = _values_by_path(piece, scalars)
    return None if found is None else _assigned(found, root, piece.line)


def _lay_out(
    node: Node, path: Path, lines: list[str], first: int, scalars: dict[_Span, tuple[Path, bool]]
) -> bool:
    """Whether every scalar stands on its line letter by letter; their spans go into ``scalars``."""
    match node:
        case Scalar():
            span = _span(node, lines, first)
            if span is None:
                return False
            scalars[span] = (path, node.plain)
            return True
        case Block(entries):
            for key, entry in entries.items():
                span = _span(entry.key, lines, first)
                if span is None or not _lay_out(entry.value, (*path, key), lines, first, scalars):
                    return False
                scalars[span] = ((*path, key, "key"), entry.key.plain)
            return True
        case Items():
            return False


def _span(scalar: Scalar, lines: list[str], first: int) -> _Span | None:
    line, start = scalar.line - first, scalar.column - 1
    rest = lines[line][start:]
    if not scalar.plain:
        start += 1
        quoted = rest[:1] in {'"', "'"} and rest.startswith(scalar.text + rest[0], 1)
        return _Span(line, start, start + len(scalar.text)) if quoted else None
    if not scalar.text or not rest.startswith(scalar.text):
        return None
    return _Span(line, start, start + len(scalar.text))


def _values_by_path(
    piece: Piece, scalars: dict[_Span, tuple[Path, bool]]
) -> dict[Path, _Value] | None:
    """Path of each scalar value -> its position among the values; ``None`` if a value is no scalar and no comment."""
    found: dict[Path, _Value] = {}
    values = set()
    for index, match in enumerate(_VALUE.finditer(piece.text)):
        start = match.start()
        begin = piece.text.rfind("\n", 0, start) + 1
        line = piece.text.count("\n", 0, start)
        span = _Span(line, start - begin, match.end() - begin)
        known = scalars.get(span)
        if known is not None:
            path, plain = known
            if plain != (piece.text[start - 1] == " "):
                return None
            found[path] = _Value(index, plain)
            values.add(span)
        elif piece.text[start - 1] != "#" or _overlaps(span, scalars):
            return None
    everything = {path for span, (path, _) in scalars.items() if span not in values}
    return found if all(path[-1] == "key" and len(path) > 1 for path in everything) else None


def _overlaps(span: _Span, scalars: dict[_Span, tuple[Path, bool]]) -> bool:
    return any(
        other.line == span.line and other.start < span.end and span.start - 1 < other.end
        for other in scalars
    )


def _assigned(found: dict[Path, _Value], root: Node, first: int) -> _Shape | None:
    """Every value given to its field; ``None`` if one belongs to no field that shapes know."""
    rest = dict(found)

    def take(*path: str) -> int | None:
        value = rest.pop(path, None)
        return None if value is None else value.position

    fixed = tuple((rest.pop(path).position, text) for path, text in _FIXED.items() if path in rest)
    limits = tuple(
        None if value is None else _Limit(key, value)
        for key in COLUMNS
        for value in (rest.pop(("spec", "limits", RULES[key].field), None),)
    )
    lines = [_line(root, ("spec", "limits", RULES[key].field), first) for key in COLUMNS]
    texts = tuple(
        value.position for path, value in rest.items() if value.plain and path[-1] not in _FLAGS
    )
    user, client_id, ip = (_slot(rest, slot) for slot in _SLOTS)
    labels = _below(rest, "labels")
    annotations = tuple(index for _, index in _below(rest, "annotations"))
    name, cluster = take("metadata", "name"), take("spec", "clusterRef", "name")
    namespace, deletion = take("metadata", "namespace"), take("spec", "deletionPolicy")
    suspend = take("spec", "suspend")
    if rest or len(fixed) != len(_FIXED) or name is None or cluster is None:
        return None
    return _Shape(
        fixed=fixed, texts=texts, namespace=namespace, name=name, cluster=cluster, slots=(user, client_id, ip),
        limits=limits, deletion_policy=deletion, suspend=suspend, labels=labels, annotations=annotations,
        line=root.line - first, lines=(lines[0], lines[1], lines[2], lines[3], lines[4]),
    )  # fmt: skip


def _slot(rest: dict[Path, _Value], slot: str) -> _Slot:
    for kind, reader in (("name", _READERS[slot]), ("default", _default)):
        value = rest.pop(("spec", "entity", slot, kind), None)
        if value is not None:
            return _Slot(reader, value.position)
    return _Slot(_absent, 0)


def _below(rest: dict[Path, _Value], field: str) -> tuple[tuple[str, int], ...]:
    paths = [path for path in rest if path[:2] == ("metadata", field) and len(path) == 3]
    return tuple((str(path[2]), rest.pop(path).position) for path in paths)


def _line(root: Node, path: Path, first: int) -> int:
    """Line of the key that ends a path, from 0 in its piece; -1 where there is none."""
    if find(root, path) is None:
        return -1
    line, _ = key_place(root, path)
    return line - first


# ---- readers of single values ---------------------------------------------------------------


def _absent(_: str) -> Slot:
    return ABSENT


def _default(text: str) -> Slot:
    if text != "true":
        raise Declined
    return DEFAULT


def _address(text: str) -> Slot:
    if not canonical_ip(text):
        raise Declined
    return text


_READERS: Final[Mapping[str, Callable[[str], Slot]]] = {
    "user": checked_name,
    "clientId": checked_name,
    "ip": _address,
}
_FLAGS: Final = frozenset({"default", "suspend"})


def _flag(text: str) -> bool:
    if text not in {"true", "false"}:
        raise Declined
    return text == "true"


def _short(text: str, longest: int) -> str:
    if len(text) > longest:
        raise Declined
    return text


def _lines(shape: _Shape, first: int) -> Lines:
    one, two, three, four, five = shape.lines
    return (
        0 if one < 0 else first + one,
        0 if two < 0 else first + two,
        0 if three < 0 else first + three,
        0 if four < 0 else first + four,
        0 if five < 0 else first + five,
    )
