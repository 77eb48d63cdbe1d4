"""Reads kquota's JSON documents strictly; errors contain the place.

Every document is an object with ``kind`` and ``format`` (a number that grows when an old reader could misread a new
document). Its type declares all its fields (:func:`typed`). Duplicate keys, unknown fields, wrong types, truncated text,
another kind and another format are refused, as after manual edits or a broken transfer.
"""

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from reconciler.base import bounded_json
from reconciler.errors import ConfigError, QuotaValueError
from reconciler.render.json_values import dump

T = TypeVar("T")
Row = TypeVar("Row")
DocumentType = TypeVar("DocumentType", bound=Struct)


class Document(Struct, frozen=True, forbid_unknown_fields=True, rename="camel", tag_field="kind"):
    """A document whose type declares all its fields; its tag is the kind."""


def kind_of(text: str, location: str) -> str:
    """Return the kind of a document; "" = none. Only the reader of this kind checks the rest."""
    top = _parse(text, location)
    return str(top.get("kind", "")) if isinstance(top, dict) else ""


def _parse(text: str | bytes, location: str) -> object:
    try:
        # A reader looks only as deep as its writer writes, so the depth of the rest does not matter.
        return bounded_json.parse(
            text,
            most_bytes=bounded_json.OWN_FILE,
            pairs=bounded_json.unique,
            checks_depth=False,
            integer=bounded_json.quota_number,
        )
    except bounded_json.InvalidJson as error:
        raise ConfigError(
            f"not a complete JSON document ({error})",
            location=location,
            hint="it was truncated or edited; create it again",
        ) from error


def typed(
    text: str, document: type[DocumentType], *, format_version: int, location: str
) -> DocumentType:
    """Return a document of a type that declares all its fields.

    A text as :func:`~reconciler.render.json_values.dump` writes it has no name twice, which msgspec would not see.

    Raises:
        ConfigError: It is truncated or not JSON, of another kind or (``key="format"``) of another format, or a field is
            given twice, missing, unknown or of another type; with its place.
    """
    with suppress(ValueError, RecursionError):
        value = msgspec.json.decode(text, type=document)
        if dump(value) == text:
            return value
    kind, top = str(document.__struct_config__.tag), _parse(text, location)
    if not isinstance(top, dict) or top.get("kind") != kind:
        read_kind = top.get("kind") if isinstance(top, dict) else None
        raise ConfigError(
            f"this is not a {kind} document"
            + (f" but {read_kind!r}" if isinstance(read_kind, str) else ""),
            location=location,
        )
    if top.get("format") != format_version:
        raise ConfigError(
            f"its format is {top.get('format')!r}; this kquota reads format {format_version}",
            key="format",
            location=location,
            hint="create it again with this version of kquota",
        )
    return converted(top, document, location)


def decoded(text: str | bytes, rows: type[T], location: str) -> T:
    """Return rows of a type that declares all their fields.

    Raises:
        ConfigError: It is not JSON, or a field is missing, unknown, given twice or of another type; with its place.
    """
    return converted(_parse(text, location), rows, location)


def converted(
    value: object,
    kind: type[T],
    location: str,
    *,
    hook: Callable[[type, Any], object] | None = None,
) -> T:
    """Return a value of a type that declares all its fields.

    Args:
        value: Its JSON, as Python's parser returns it.
        kind: The type.
        location: The name of the document, for errors.
        hook: Returns the value of a type that msgspec does not know, from its JSON.

    Raises:
        ConfigError: A field is missing, unknown or of another type; with its place.
    """

    def convert() -> T:
        return msgspec.convert(value, kind, str_keys=True, dec_hook=hook)

    try:
        return convert()
    except msgspec.ValidationError as error:
        raise edited(_words_of(str(error), value, convert), location) from error
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


_STEP: Final = re.compile(r"\[(\d+)\]|([^.\[\]]+)|\[\.\.\.\]")
"""A step of a path of msgspec: an index, a field or, as ``[...]``, any name."""


def _words_of(message: str, document: object, convert: Callable[[], object]) -> str:
    """Return what msgspec says of a value in the words of these documents.

    Args:
        message: The message of msgspec.
        document: What it is about.
        convert: Reads the document again.
    """
    words, _, place = message.partition(" - at `")
    path = _with_names(place.rpartition("$")[2], document, convert) or "the document"
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


def _with_names(path: str, value: Any, convert: Callable[[], object]) -> str:  # noqa: ANN401 - JSON
    """Return a path with the names that msgspec leaves out: the first of several whose value is refused alone."""
    steps = ""
    for step in _STEP.finditer(path.rstrip("`")):
        index, name = step.groups()
        name = name or index or _name_at_fault(value, convert)
        steps += f"[{index}]" if index else f".{name}"
        value = value[int(index)] if index else value[name]
    return steps.removeprefix(".")


def _name_at_fault(entries: dict[str, Any], convert: Callable[[], object]) -> str:
    """Return the first name whose entry is refused alone."""
    copy, name = dict(entries), ""
    for name, entry in copy.items():
        entries.clear()
        entries[name] = entry
        with suppress(msgspec.ValidationError):
            _ = convert()
            continue
        break
    entries.clear()
    entries.update(copy)
    return name
