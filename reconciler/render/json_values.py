"""Values and documents as JSON: one form for all documents. `reconciler.codecs` reads them."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias, cast

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import fields

from reconciler.base.compact_json import compact, exact, lines
from reconciler.base.output_text import json_text
from reconciler.quota.keys import SetValue, WrittenValue
from reconciler.render.units import json_number

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"

SPECIAL: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf, "-0.0": -0.0}
"""Values that a cluster may have and JSON cannot represent; written as these strings."""

ROWS_OF_A_PIECE: Final = 10_000

_EXACT: Final = 2.0**53
"""Up to this value float64 represents every whole number."""

_ENCODE: Final = compact(sort_keys=True)
_SMALL: Final = json.JSONEncoder(
    separators=(", ", ": "), sort_keys=True, ensure_ascii=True, allow_nan=False
).encode


def dump(document: Mapping[str, Json] | Struct) -> str:
    """Return the document as text: one field per line, long arrays with one item per line, sorted, ASCII.

    So a line of a diff is a fact that changed, and 30,000 rows are written at the speed of the C encoder. Typed rows
    declare their fields in alphabetical order.
    """
    return "".join(dump_pieces(document))


def dump_pieces(document: Mapping[str, Json] | Struct) -> Iterator[str]:
    """Yield the text of :func:`dump` in pieces, which together take a third of the memory."""
    values = document if isinstance(document, Mapping) else _fields(document)
    yield "{\n"
    separator = ""
    for name in sorted(values):
        yield json_text(f"{separator}  {_ENCODE(name)}: ")
        yield from map(json_text, _field(values[name]))
        separator = ",\n"
    yield "\n}\n"


def _fields(document: Struct) -> Mapping[str, object]:
    config = document.__struct_config__
    values = {} if config.tag_field is None else {config.tag_field: config.tag}
    for field in fields(document):
        value = getattr(document, field.name)
        if value is not UNSET and not (config.omit_defaults and value == field.default):
            values[field.encode_name] = value
    return values


def _field(value: object) -> Iterator[str]:
    """Yield the pieces of a value."""
    if not (isinstance(value, list) and value):
        yield _SMALL(msgspec.to_builtins(value, str_keys=True, enc_hook=float))
        return
    separator = "[\n    "
    for start in range(0, len(value), ROWS_OF_A_PIECE):
        rows = value[start : start + ROWS_OF_A_PIECE]
        if isinstance(rows[0], Struct):
            text = str(memoryview(lines(rows))[:-1], "ascii").replace("\n", ",\n    ")
        else:
            text = ",\n    ".join(map(_ENCODE, rows))
        yield separator
        yield text
        separator = ",\n    "
    yield "\n  ]"


def value_json(value: float | None) -> float | int | str | None:
    """Return a quota value, exactly; ``None`` = not set."""
    if value is None:
        return None
    if 0 < value <= _EXACT:
        integer = int(value)
        return integer if integer == value else value
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0 and math.copysign(1, value) < 0:
        return "-0.0"
    return json_number(value)


def written_value(value: float | None) -> WrittenValue:
    """Return the result of :func:`value_json` for a typed row."""
    if value is None or (0 < value <= _EXACT and value % 1 == 0):  # most are
        return None if value is None else int(value)
    result = value_json(value)
    return exact(result) if type(result) is float else cast("WrittenValue", result)


def read_value(value: WrittenValue) -> float | None:
    """Return the quota value that :func:`written_value` wrote."""
    return None if value is None else read_set_value(value)


def written_set_value(value: float) -> SetValue:
    """Return the result of :func:`value_json` of a value that is set."""
    return cast("SetValue", written_value(value))


def read_set_value(value: SetValue) -> float:
    """Return the quota value that :func:`written_set_value` wrote."""
    return SPECIAL[value] if isinstance(value, str) else float(value)


def row_text(rows: Sequence[Struct]) -> str:
    """Return rows as one line of JSON, in ASCII."""
    return f"[{','.join(lines(rows).decode('ascii').splitlines())}]"
