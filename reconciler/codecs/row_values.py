"""Values of rows as JSON objects, and back, by the fields and type hints of their dataclasses.

Keys are names of fields, which are the columns of the tables; the columns of a bucket are keys of its row.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date
from enum import Enum, StrEnum
from functools import cache
from types import UnionType
from typing import Any, Final, TypeVar, get_args, get_origin, get_type_hints

from reconciler.codecs.reader import DocumentReader
from reconciler.render.json_values import Json, value_json
from reconciler.usage.tags import Bucket, GroupKind

T = TypeVar("T")


def json_of(value: object) -> Json:
    """Convert any value of rows: limits as Kafka stores them.

    Raises:
        TypeError: The value has a type that has no form in JSON.
    """
    if isinstance(value, date):
        value = value.isoformat()
    if isinstance(value, Enum):
        return str(value.value)
    if is_dataclass(value) and not isinstance(value, type):
        return row_document(value)
    if isinstance(value, Mapping):
        return {str(key): json_of(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [json_of(item) for item in value]
    if isinstance(value, float):
        return value_json(value)
    if value is None or isinstance(value, str | int | bool):
        return value
    raise TypeError(f"{type(value).__name__} has no JSON")


def row_document(value: object) -> dict[str, Json]:
    """Convert a dataclass by its fields."""
    document: dict[str, Json] = {}
    for field in fields(value):  # type: ignore[arg-type] # the caller made sure that it is a dataclass
        inner = getattr(value, field.name)
        document |= inner.columns if isinstance(inner, Bucket) else {field.name: json_of(inner)}
    return document


def _read_day(reader: DocumentReader) -> date:
    """Read a date (YYYY-MM-DD)."""
    try:
        return date.fromisoformat(reader.text())
    except ValueError:
        reader.fail("a date")


_SCALARS: Final[Mapping[object, Callable[[DocumentReader], object]]] = {
    str: DocumentReader.text,
    int: DocumentReader.amount,
    bool: DocumentReader.boolean,
    date: _read_day,
    float: lambda reader: reader.value if isinstance(reader.value, float) else reader.set_value(),
}


def read_row(row: DocumentReader, kind: Callable[..., T]) -> T:
    """Read what :func:`row_document` wrote of a dataclass, or a row of its table; whole numbers are not negative."""
    values = {
        name: _read_bucket(row) if hint is Bucket else _read(row[name], hint)
        for name, hint in _hints(kind).items()
    }
    return kind(**values)


@cache
def _hints(kind: Callable[..., object]) -> Mapping[str, Any]:
    return get_type_hints(kind)


def _read_bucket(row: DocumentReader) -> Bucket:
    return Bucket(
        kind=row["group_kind"].word(GroupKind),
        user=row["user"].text(),
        client_id=row["client_id"].text(),
        ip=row["ip"].text(),
    )


def _read(reader: DocumentReader, hint: object) -> object:
    kind, arguments = get_origin(hint), get_args(hint)
    if kind is UnionType:  # a value or None
        return reader.optional(lambda inner: _read(inner, arguments[0]))
    if kind is tuple:
        return reader.rows(lambda item: _read(item, arguments[0]))
    if kind is Mapping:
        return {name: _read(item, arguments[1]) for name, item in reader.pairs()}
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return reader.word(hint)
    if isinstance(hint, type) and is_dataclass(hint):
        return read_row(reader, hint)
    return _SCALARS[hint](reader)
