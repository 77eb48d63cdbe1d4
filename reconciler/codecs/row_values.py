"""Values of rows as JSON objects, by the fields of their dataclasses, and as rows of their tables.

Keys are names of fields, which are the columns of the tables; the columns of a bucket are keys of its row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date
from enum import Enum
from typing import TypeVar

from reconciler.codecs.reader import converted
from reconciler.render.json_values import Json, value_json
from reconciler.usage.tags import Bucket, bucket_of_row

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


def read_row(row: Mapping[str, object], kind: type[T]) -> T:
    """Read a row of the table of a dataclass.

    Raises:
        ConfigError: A column is missing or has a value that the field cannot have.
    """
    return converted(
        {**row, "bucket": bucket_of_row(row)} if "group_kind" in row else row, kind, ""
    )
