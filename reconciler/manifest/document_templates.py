"""Reading the ten-thousandth document like the second: documents that differ only in their values.

A repository of quotas holds thousands of documents and a handful of layouts. So a piece of text is cut into a
*skeleton* (everything that is not a value) and its *values*: safe plain scalars and simple quoted ones after ``: ``.
The first document with a skeleton goes through the strict reader, and what it found is learned
(``shape_learning``): which value is which field. Later ones take their values from there.

Why that is exact. No value can change how YAML reads the text around it: a plain one has only letters, digits
and ``_ . / @ + = -`` or an inner colon; a quoted one has neither its quote nor a backslash nor a control character;
both stand before a line end, a comma, a closing brace or a comment. A comment ends at its line. So two texts with one
skeleton give one tree but for the values, provided that in the learned text each value really was a whole scalar
at its place. Learning proves that, or learns nothing. Values go through the same checks as ever; if one fails,
the strict reader reads the document again and words the error. A property test holds both readers together.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from reconciler.manifest.document import (
    DEFAULT_NAMESPACE,
    DocumentDeclined,
    checked_name,
    deletion_policy,
    limit,
    resource_name,
)
from reconciler.manifest.rules.client_quota import canonical_ip
from reconciler.manifest.schema_names import API_VERSION, QUOTA
from reconciler.manifest.syntax.scalars import is_text
from reconciler.quota.entity import ABSENT, DEFAULT, Entity, Slot
from reconciler.quota.keys import COLUMNS
from reconciler.quota.planner.desired_state import Declaration, Lines

_CLEAN: Final = "\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029\\ud800-\\udfff\\ufeff\\ufffe\\uffff"
_SCALAR: Final = (
    rf""": ("[^"\\{_CLEAN}]*"|'[^'{_CLEAN}]*'(?!')|[A-Za-z0-9][A-Za-z0-9_./@+=:-]*(?<!:))"""
    r"(?= *(?:[,}]|\r?\n|\Z)| +\#)"
)
VALUE: Final = re.compile(_SCALAR)
"""A value with its quotes, after ``: ``, in a text without ``#``."""

VALUE_OR_COMMENT: Final = re.compile(
    _SCALAR + rf"|\#(?<![^ \n]\#)([^{_CLEAN}]{{0,4096}})(?=\r?\n|\Z)"
)
"""A value, or a comment without its ``#``. A longer comment is none here: looking for its end begins anew at each ``#``."""

Skeleton: TypeAlias = tuple[str | bool, ...]
"""The text around the values; with comments, a truth value for each cut says which of both it was."""


class SplitText(NamedTuple):
    """A piece in its parts."""

    skeleton: Skeleton
    values: list[str]


def cut(text: str) -> SplitText:
    """The skeleton of a text and its values, in order, with their quotes."""
    if "#" not in text:
        parts = VALUE.split(text)
        return SplitText(tuple(parts[::2]), parts[1::2])
    parts = VALUE_OR_COMMENT.split(text)
    values: list[str | None] = parts[1::3]
    skeleton = (*parts[::3], *[value is None for value in values])
    return SplitText(skeleton, [value for value in values if value is not None])


SlotReader: TypeAlias = Callable[[str], Slot]


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentTemplate:
    """Where the fields of a document stand among its values.

    Attributes:
        api_version: Position of this field's value; likewise ``kind``, ``name`` and ``cluster``.
        namespace: The same, or ``None`` where the document has no such field; likewise ``deletion_policy``,
            ``suspend``.
        slots: For user, client-id and ip: who reads the value, and where it stands (0 if it is not read).
        limits: Per column, where the limit stands.
        labels: Name of each label and where its value stands, sorted.
        annotations: Where the annotations stand; they are only checked.
        accepted: Kind of each warning that an annotation accepts, and where its reason stands, sorted.
        line: First line of the document, from 0 in its piece.
        lines: Line of each limit, from 0 in the piece; -1 where there is none.
    """

    api_version: int
    kind: int
    namespace: int | None
    name: int
    cluster: int
    slots: tuple[tuple[SlotReader, int], tuple[SlotReader, int], tuple[SlotReader, int]]
    limits: tuple[int | None, int | None, int | None, int | None, int | None]
    deletion_policy: int | None
    suspend: int | None
    labels: tuple[tuple[str, int], ...]
    annotations: tuple[int, ...]
    accepted: tuple[tuple[str, int], ...]
    line: int
    lines: Lines


class TemplateMatch(NamedTuple):
    """A document of a known shape."""

    cluster: str
    declaration: Declaration


class TemplateFiller:
    """Fills shapes with values. Its only state is what values meant before, because values repeat."""

    def __init__(self) -> None:
        self._limits: tuple[dict[str, float], ...] = tuple({} for _ in COLUMNS)
        self._names: dict[tuple[str, bool], str] = {}

    def filled(
        self, shape: DocumentTemplate, values: list[str], first: int, path: str
    ) -> TemplateMatch:
        """The document with this shape and these values.

        Args:
            shape: Its shape.
            values: Its values, with their quotes.
            first: Line of the piece in its file, from 1.
            path: Its file.

        Raises:
            Declined: A value is not what its field allows.
        """
        if (
            text_of(values[shape.api_version]) != API_VERSION
            or text_of(values[shape.kind]) != QUOTA
        ):
            raise DocumentDeclined
        namespace = DEFAULT_NAMESPACE
        if shape.namespace is not None:
            namespace = self._checked_name(values[shape.namespace], label=True)
        labels = _labels(shape, values) if shape.labels or shape.annotations else ()
        (user, user_at), (client_id, client_id_at), (ip, ip_at) = shape.slots
        producer, consumer, request, mutation, connection = shape.limits
        return TemplateMatch(
            self._checked_name(values[shape.cluster], label=False),
            Declaration(
                document=f"{namespace}/{resource_name(text_of(values[shape.name]))}",
                entity=Entity(
                    (user(values[user_at]), client_id(values[client_id_at]), ip(values[ip_at]))
                ),
                limits=(
                    None if producer is None else self._limit(0, values[producer]),
                    None if consumer is None else self._limit(1, values[consumer]),
                    None if request is None else self._limit(2, values[request]),
                    None if mutation is None else self._limit(3, values[mutation]),
                    None if connection is None else self._limit(4, values[connection]),
                ),
                path=path,
                line=first + shape.line,
                lines=_lines(shape.lines, first),
                deletion_policy=None
                if shape.deletion_policy is None
                else deletion_policy(text_of(values[shape.deletion_policy])),
                suspended=False if shape.suspend is None else _flag(values[shape.suspend]),
                labels=labels,
                accepted=tuple([(kind, text_of(values[at])) for kind, at in shape.accepted])
                if shape.accepted
                else (),
            ),
        )

    def _checked_name(self, value: str, *, label: bool) -> str:
        """A name that thousands of documents repeat."""
        name = self._names.get((value, label))
        if name is None:
            name = self._names[value, label] = resource_name(text_of(value), label=label)
        return name

    def _limit(self, column: int, value: str) -> float:
        number = self._limits[column].get(value)
        if number is None:
            plain = value[0] not in _QUOTES
            text = value if plain else value[1:-1]
            number = self._limits[column][value] = limit(COLUMNS[column], text, plain=plain)
        return number


_QUOTES: Final = frozenset("\"'")


def text_of(value: str) -> str:
    """The string that a value is to every reader.

    Raises:
        Declined: Written plain, some reader takes it for something else.
    """
    if value[0] in _QUOTES:
        return value[1:-1]
    if not is_text(value):
        raise DocumentDeclined
    return value


def _labels(shape: DocumentTemplate, values: list[str]) -> tuple[tuple[str, str], ...]:
    """The labels; the annotations are only checked."""
    for position in shape.annotations:
        if len(text_of(values[position])) > 262_144:
            raise DocumentDeclined
    labels = tuple([(name, text_of(values[position])) for name, position in shape.labels])
    if any(len(text) > 63 for _, text in labels):
        raise DocumentDeclined
    return labels


def _flag(value: str) -> bool:
    if value not in {"true", "false"}:
        raise DocumentDeclined
    return value == "true"


def _lines(offsets: Lines, first: int) -> Lines:
    producer, consumer, request, mutation, connection = offsets
    return (
        first + producer if producer >= 0 else 0,
        first + consumer if consumer >= 0 else 0,
        first + request if request >= 0 else 0,
        first + mutation if mutation >= 0 else 0,
        first + connection if connection >= 0 else 0,
    )


# ---- readers of a slot ----------------------------------------------------------------------


def absent(_: str) -> Slot:
    """A slot that the document does not have."""
    return ABSENT


def default(value: str) -> Slot:
    """The value of ``default``."""
    if value != "true":
        raise DocumentDeclined
    return DEFAULT


def name(value: str) -> Slot:
    """The name of a user or client-id."""
    return checked_name(text_of(value))


def address(value: str) -> Slot:
    """The name of an ip."""
    text = text_of(value)
    if not canonical_ip(text):
        raise DocumentDeclined
    return text
