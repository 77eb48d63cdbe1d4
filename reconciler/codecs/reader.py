"""Reads kquota's JSON documents strictly; errors contain the place.

Every document is an object with ``kind`` and ``format`` (a number that grows when an old reader could misread a new
document). Its type declares all its fields (:func:`typed`). Duplicate keys, unknown fields, wrong types, truncated text,
another kind and another format are refused, as after manual edits or a broken transfer.

:class:`DocumentReader` reads documents of recorded use, whose values are dataclasses.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Final, NoReturn, TypeVar

import msgspec
from msgspec import Struct

from reconciler.base import bounded_json
from reconciler.base.compact_json import compact
from reconciler.errors import ConfigError, QuotaValueError
from reconciler.render.json_values import SPECIAL, Json, dump

T = TypeVar("T")
Row = TypeVar("Row")
Word = TypeVar("Word", bound=StrEnum)
DocumentType = TypeVar("DocumentType", bound=Struct)

_ENCODE: Final = compact(sort_keys=True)


class Document(Struct, frozen=True, forbid_unknown_fields=True, rename="camel", tag_field="kind"):
    """A document whose type declares all its fields; its tag is the kind."""


class DocumentReader:
    """A value of a document with its path, so that every error can show its place.

    A plain class and not a dataclass: a plan of 30,000 changes creates half a million instances.

    Args:
        step: The last step of its path, such as ``.after`` or ``[3]``; "" at the top.
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
        """The path from the top, such as ``changes[3].after``."""
        above = self._parent.path if self._parent is not None else ""
        return f"{above}{self._step}".removeprefix(".")

    @property
    def location(self) -> str:
        """File name or another name of the document."""
        return self._location if self._parent is None else self._parent.location

    def fail(self, expected: str) -> NoReturn:
        """Raise an error about this value.

        Raises:
            ConfigError: Always.
        """
        raise ConfigError(
            f"{self.path or 'the document'} should be {expected}",
            location=self.location,
            hint="create the document again; do not edit it",
        )

    def fields(self, *names: str, optional: Sequence[str] = ()) -> dict[str, "DocumentReader"]:
        """Return the fields of an object; all of ``names`` are required, others are allowed only if ``optional``."""
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

    def __getitem__(self, name: str) -> "DocumentReader":
        """Return one field of an object."""
        if not isinstance(self.value, dict):
            self.fail("an object")
        if name not in self.value:
            self.fail(f"an object with the field {name!r}")
        return self._at(f".{name}", self.value[name])

    def __contains__(self, name: str) -> bool:
        """Whether this is an object with such a field."""
        return isinstance(self.value, dict) and name in self.value

    def optional(self, read: "Callable[[DocumentReader], T]") -> T | None:
        """Read the value with ``read``; return ``None`` for a null."""
        return None if self.value is None else read(self)

    def rows(self, read: "Callable[[DocumentReader], T]") -> tuple[T, ...]:
        """Read each item of an array with ``read``."""
        return tuple(read(item) for item in self.items())

    def expect(self, document: Json) -> None:
        """Check that the value equals ``document``.

        Raises:
            ConfigError: It differs; the place is that of the first difference.
        """
        with suppress(
            ValueError, RecursionError
        ):  # an infinite number, such as 1e999; nested arrays
            if _ENCODE(self.value) == _ENCODE(document):
                return
        if isinstance(document, Mapping):
            fields = self.fields(*document)
            for name, item in document.items():
                fields[name].expect(item)
        elif isinstance(document, list):
            items = list(self.items())
            if len(items) != len(document):
                self.fail(f"an array of {len(document)}, as the rest of the document says")
            for reader, element in zip(items, document, strict=True):
                reader.expect(element)
        elif isinstance(self.value, bool) or isinstance(document, bool) or self.value != document:
            # 5.0 equals 5, but true does not equal 1.
            self.fail(f"{json.dumps(document)}, as the rest of the document says")

    def items(self) -> Iterator["DocumentReader"]:
        """Iterate over the items of an array."""
        if not isinstance(self.value, list):
            self.fail("an array")
        for at, item in enumerate(self.value):
            yield self._at(f"[{at}]", item)

    def array(self, *lengths: int) -> list["DocumentReader"]:
        """Return the items of an array of one of these lengths."""
        items = list(self.items())
        if len(items) not in lengths:
            self.fail(f"an array of {' or '.join(map(str, lengths))}")
        return items

    def pairs(self) -> Iterator[tuple[str, "DocumentReader"]]:
        """Iterate over names and values of an object with arbitrary names."""
        if not isinstance(self.value, dict):
            self.fail("an object")
        for name, item in self.value.items():
            yield name, self._at(f"[{json.dumps(name)}]", item)

    def text(self) -> str:
        """Return a string."""
        if not isinstance(self.value, str):
            self.fail("a string")
        return self.value

    def boolean(self) -> bool:
        """Return true or false."""
        if not isinstance(self.value, bool):
            self.fail("true or false")
        return self.value

    def integer(self) -> int:
        """Return a whole number."""
        if not isinstance(self.value, int) or isinstance(self.value, bool):
            self.fail("a whole number")
        return self.value

    def amount(self) -> int:
        """Return a whole number that is not negative."""
        value = self.integer()
        return value if value >= 0 else self.fail("a whole number from 0")

    def number(self) -> float:
        """Return a finite number."""
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            self.fail("a number")
        try:
            value = float(self.value)
        except OverflowError:
            value = math.inf
        return value if math.isfinite(value) else self.fail("a smaller number")

    def set_value(self) -> float:
        """Read a quota value that is set."""
        if isinstance(self.value, str):
            return SPECIAL[self.value] if self.value in SPECIAL else self.fail("a quota value")
        return self.number()

    def choice(self, names: Mapping[str, object]) -> str:
        """Return a string that is one of ``names``."""
        word = self.text()
        return word if word in names else self.fail(f"one of {', '.join(sorted(names))}")

    def word(self, words: type[Word]) -> Word:
        """Return a member of an enumeration."""
        return words(self.choice({member.value: member for member in words}))

    def _at(self, step: str, value: object) -> "DocumentReader":
        return DocumentReader(value, step=step, parent=self)


def kind_of(text: str, location: str) -> str:
    """Return the kind of a document; "" = none. Only the reader of this kind checks the rest."""
    top = _parse(text, location)
    return str(top.get("kind", "")) if isinstance(top, dict) else ""


def _parse(
    text: str | bytes, location: str, *, integer: Callable[[str], object] | None = None
) -> object:
    try:
        # A reader looks only as deep as its writer writes, so the depth of the rest does not matter.
        return bounded_json.parse(
            text,
            most_bytes=bounded_json.OWN_FILE,
            pairs=bounded_json.unique,
            checks_depth=False,
            integer=integer,
        )
    except bounded_json.InvalidJson as error:
        raise ConfigError(
            f"not a complete JSON document ({error})",
            location=location,
            hint="it was truncated or edited; create it again",
        ) from error


def load(
    text: str | bytes,
    *,
    kind: str,
    format_version: int,
    location: str,
    integer: Callable[[str], object] | None = None,
) -> DocumentReader:
    """Return the top of a document of one kind and format.

    Args:
        text: The document.
        kind: Its kind.
        format_version: Its format.
        location: Its name, for errors.
        integer: As for :func:`~reconciler.base.bounded_json.parse`.

    Raises:
        ConfigError: It is truncated or not JSON, has a duplicate key, is of another kind, or (``key="format"``) of
            another format.
    """
    value = _parse(text, location, integer=integer)
    if not isinstance(value, dict) or value.get("kind") != kind:
        kind_value = value.get("kind") if isinstance(value, dict) else None
        raise ConfigError(
            f"this is not a {kind} document"
            + (f" but {kind_value!r}" if isinstance(kind_value, str) else ""),
            location=location,
        )
    if value.get("format") != format_version:
        raise ConfigError(
            f"its format is {value.get('format')!r}; this kquota reads format {format_version}",
            key="format",
            location=location,
            hint="create it again with this version of kquota",
        )
    return DocumentReader(value, location=location)


def typed(
    text: str, document: type[DocumentType], *, format_version: int, location: str
) -> DocumentType:
    """Return a document of a type that declares all its fields.

    A text as :func:`~reconciler.render.json_values.dump` writes it has no name twice, which msgspec would not see.

    Raises:
        ConfigError: As :func:`load`, or a field is missing, unknown or of another type; with its place.
    """
    with suppress(ValueError, RecursionError):
        value = msgspec.json.decode(text, type=document)
        if dump(value) == text:
            return value
    top = load(
        text,
        kind=str(document.__struct_config__.tag),
        format_version=format_version,
        location=location,
        integer=bounded_json.quota_number,
    )
    return _checked(lambda: msgspec.convert(top.value, document, str_keys=True), location)


def decoded(text: str | bytes, rows: type[T], location: str) -> T:
    """Return rows of a type that declares all their fields.

    Raises:
        ConfigError: It is not JSON, or a field is missing, unknown, given twice or of another type; with its place.
    """
    value = _parse(text, location, integer=bounded_json.quota_number)
    return _checked(lambda: msgspec.convert(value, rows, str_keys=True), location)


def _checked(read: Callable[[], T], location: str) -> T:
    try:
        return read()
    except msgspec.ValidationError as error:
        raise edited(_words_of(str(error)), location) from error
    except (ValueError, RecursionError) as error:  # half of a surrogate pair; nested too deep
        raise edited(f"it has a value that no document has ({error})", location) from error


def edited(message: str, location: str) -> ConfigError:
    """Return the error about a document that is not as kquota wrote it."""
    return ConfigError(message, location=location, hint="create the document again; do not edit it")


def values_of(name: str, rows: Sequence[Row], convert: Callable[[Row], T]) -> tuple[T, ...]:
    """Convert the rows of an array of this name.

    Raises:
        QuotaValueError: A row cannot be; with its place.
    """
    values: list[T] = []
    for row in rows:
        try:
            values.append(convert(row))
        except QuotaValueError as error:
            raise QuotaValueError(f"{name}[{len(values)}]: {error}") from error
    return tuple(values)


_UNKNOWN: Final = "Object contains unknown field "
_MISSING: Final = "Object missing required field "
_OTHER_WORD: Final = "Invalid enum value "
_OTHER_TYPE: Final = "Expected "
"""How msgspec begins to say what is wrong with a value; its names and types are in backticks."""


def _words_of(message: str) -> str:
    """Return what msgspec says of a value in the words of :meth:`DocumentReader.fail`."""
    words, _, place = message.partition(" - at `")
    path = place.rpartition("$")[2].rstrip("`").removeprefix(".") or "the document"
    if place.startswith("key` in "):
        path = f"a name in {path}"
    if words.startswith(_UNKNOWN):
        name = words.removeprefix(_UNKNOWN)[1:-1]
        words = f"should be an object without the unknown field {name!r}"
    elif words.startswith(_MISSING):
        name = words.removeprefix(_MISSING)[1:-1]
        words = f"should be an object with the field {name!r}"
    elif words.startswith(_OTHER_WORD):
        value = words.removeprefix(_OTHER_WORD)
        words = f"should be another word than {value}, which is unknown"
    elif words.startswith(_OTHER_TYPE):
        types = words.removeprefix(_OTHER_TYPE).replace("`", "")
        words = f"should be {types.replace(', got ', ', not ')}"
    return f"{path} {words}"
