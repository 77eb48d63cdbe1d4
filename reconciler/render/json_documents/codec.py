"""JSON documents that we write and read back: one spelling, strict reading, errors that name the place.

Every document is an object with ``kind`` and ``format`` (a number that grows when an old reader could
misread a new document). Output is sorted, ASCII and ends with a line feed, so that equal facts give equal
bytes. Reading refuses what a person or a broken transfer may have done: duplicate keys, unknown fields,
wrong types, cut-off text, another kind, a newer format.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, NoReturn, TypeAlias

from reconciler.base import bounded_json
from reconciler.base.compact_json import compact
from reconciler.base.output_text import json_text
from reconciler.errors import ConfigError, QuotaValueError
from reconciler.quota.entity import Entity, from_parts, parts
from reconciler.render.units import json_number

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"

_SPECIAL: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf, "-0.0": -0.0}
"""Values that a cluster may hold and JSON cannot say; written as these strings."""


_ENCODE: Final = compact(sort_keys=True)
_SMALL: Final = json.JSONEncoder(
    separators=(", ", ": "), sort_keys=True, ensure_ascii=True, allow_nan=False
).encode


def dump(document: Mapping[str, Json]) -> str:
    """The document as text: one field per line, long arrays with one item per line, sorted, ASCII.

    So a line of a diff is a fact that changed, and 30,000 rows are written at the speed of the C encoder.
    """
    fields: list[str] = []
    for name in sorted(document):
        value = document[name]
        if isinstance(value, list) and value:
            text = "[\n    " + ",\n    ".join(map(_ENCODE, value)) + "\n  ]"
        else:
            text = _SMALL(value)
        fields.append(f"  {_ENCODE(name)}: {text}")
    return json_text("{\n" + ",\n".join(fields) + "\n}\n")


def value_json(value: float | None) -> float | int | str | None:
    """A quota value, exactly; ``None`` is "not set"."""
    if value is None:
        return None
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0 and math.copysign(1, value) < 0:
        return "-0.0"
    return json_number(value)


def entity_json(subject: Entity) -> list[list[str | None]]:
    """An entity as ``[["user", "alice"], ["client-id", null]]``: ``null`` is the default, nothing else is."""
    return [[kind, name] for kind, name in parts(subject)]


class DocumentReader:
    """A value of a document that knows the way to it, so that every error can name its place.

    A plain class and not a dataclass: a plan of 30,000 changes makes half a million of them.

    Args:
        value: What stands there.
        step: The last step of the way, such as ``.after`` or ``[3]``; "" at the top.
        location: File name or another name of the document.
        parent: Where the step leads from.
    """

    __slots__ = ("_location", "_parent", "_step", "value")

    def __init__(
        self,
        value: object,
        *,
        step: str = "",
        location: str = "",
        parent: "DocumentReader | None" = None,
    ) -> None:
        self.value = value
        self._step = step
        self._location = location
        self._parent = parent

    @property
    def path(self) -> str:
        """The way from the top, such as ``changes[3].after``."""
        above = self._parent.path if self._parent is not None else ""
        return f"{above}{self._step}".removeprefix(".")

    @property
    def location(self) -> str:
        """File name or another name of the document."""
        return self._location if self._parent is None else self._parent.location

    def fail(self, expected: str) -> NoReturn:
        """Raise for what stands here.

        Raises:
            ConfigError: Always.
        """
        raise ConfigError(
            f"{self.path or 'the document'} should be {expected}",
            location=self.location,
            hint="make the document anew; it is not meant to be edited",
        )

    def fields(self, *names: str, optional: Sequence[str] = ()) -> dict[str, "DocumentReader"]:
        """The fields of an object; all of ``names`` must be there, others only if ``optional``."""
        if not isinstance(self.value, dict):
            self.fail("an object")
        missing = [name for name in names if name not in self.value]
        unknown = sorted(self.value.keys() - set(names) - set(optional))
        if missing or unknown:
            self.fail(
                f"an object with the field {missing[0]!r}"
                if missing
                else f"an object without the unknown field {unknown[0]!r}"
            )
        return {name: self._at(f".{name}", item) for name, item in self.value.items()}

    def items(self) -> Iterator["DocumentReader"]:
        """The items of an array."""
        if not isinstance(self.value, list):
            self.fail("an array")
        for at, item in enumerate(self.value):
            yield self._at(f"[{at}]", item)

    def pairs(self) -> Iterator[tuple[str, "DocumentReader"]]:
        """Names and values of an object with free names."""
        if not isinstance(self.value, dict):
            self.fail("an object")
        for name, item in self.value.items():
            yield name, self._at(f"[{json.dumps(name)}]", item)

    def text(self) -> str:
        """A string."""
        if not isinstance(self.value, str):
            self.fail("a string")
        return self.value

    def truth(self) -> bool:
        """True or false."""
        if not isinstance(self.value, bool):
            self.fail("true or false")
        return self.value

    def integer(self) -> int:
        """A whole number."""
        if not isinstance(self.value, int) or isinstance(self.value, bool):
            self.fail("a whole number")
        return self.value

    def number(self) -> float:
        """A finite number."""
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            self.fail("a number")
        try:
            return float(self.value)
        except OverflowError:
            self.fail("a smaller number")

    def quota_value(self) -> float | None:
        """What :func:`value_json` wrote."""
        if self.value is None:
            return None
        if isinstance(self.value, str):
            return _SPECIAL[self.value] if self.value in _SPECIAL else self.fail("a quota value")
        return self.number()

    def instant(self) -> float:
        """What :func:`~reconciler.render.units.instant` wrote, in seconds since the epoch; it keeps whole seconds."""
        expected = "an instant such as 2025-11-21T12:00:00Z"
        try:
            when = datetime.fromisoformat(self.text())
        except ValueError:
            self.fail(expected)
        return when.timestamp() if when.tzinfo is not None else self.fail(expected)

    def entity(self) -> Entity:
        """What :func:`entity_json` wrote."""
        entity_parts: list[tuple[str, str | None]] = []
        for part in self.items():
            match part.value:
                case [str(kind), str() | None as name]:
                    entity_parts.append((kind, name))
                case _:
                    part.fail('a pair such as ["user", "alice"]')
        try:
            return from_parts(entity_parts)
        except QuotaValueError as error:
            self.fail(f"an entity: {error}")

    def choice(self, names: Mapping[str, object]) -> str:
        """One of some words."""
        word = self.text()
        return word if word in names else self.fail(f"one of {', '.join(sorted(names))}")

    def _at(self, step: str, value: object) -> "DocumentReader":
        return DocumentReader(value, step=step, parent=self)


def load(text: str, *, kind: str, format_version: int, location: str) -> DocumentReader:
    """The top of a document of one kind and format.

    Raises:
        ConfigError: It is cut off or no JSON, has a key twice, is of another kind, or (``key="format"``) of
            another format.
    """
    try:
        value = bounded_json.parse(text, most_bytes=bounded_json.DOCUMENT, pairs=_once)
    except bounded_json.InvalidJson as error:
        raise ConfigError(
            f"no whole JSON document ({error})",
            location=location,
            hint="it was cut off or edited; make it anew",
        ) from error
    if not isinstance(value, dict) or value.get("kind") != kind:
        kind_value = value.get("kind") if isinstance(value, dict) else None
        raise ConfigError(
            f"this is no {kind} document"
            + (f" but {kind_value!r}" if isinstance(kind_value, str) else ""),
            location=location,
        )
    if value.get("format") != format_version:
        raise ConfigError(
            f"its format is {value.get('format')!r}; this kquota reads format {format_version}",
            key="format",
            location=location,
            hint="make it anew with the kquota that is to read it",
        )
    return DocumentReader(value, location=location)


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        duplicates = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {duplicates!r} stands twice")
    return members
