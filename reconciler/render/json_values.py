"""Values and documents as JSON: one form for all documents. `reconciler.codecs` reads them."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from reconciler.base.compact_json import compact
from reconciler.base.output_text import json_text
from reconciler.render.units import json_number

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"

SPECIAL: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf, "-0.0": -0.0}
"""Values that a cluster may have and JSON cannot represent; written as these strings."""

_EXACT: Final = 2.0**53
"""Up to this value float64 represents every whole number."""

_ENCODE: Final = compact(sort_keys=True)
_SMALL: Final = json.JSONEncoder(
    separators=(", ", ": "), sort_keys=True, ensure_ascii=True, allow_nan=False
).encode


class JsonText(str):
    """A value that is JSON already, as :func:`dump` would write it."""

    __slots__ = ()


def dump(document: Mapping[str, Json]) -> str:
    """Return the document as text: one field per line, long arrays with one item per line, sorted, ASCII.

    So a line of a diff is a fact that changed, and 30,000 rows are written at the speed of the C encoder.
    """
    fields: list[str] = []
    for name in sorted(document):
        value = document[name]
        if isinstance(value, list) and value:
            rows = (row if type(row) is JsonText else _ENCODE(row) for row in value)
            text = "[\n    " + ",\n    ".join(rows) + "\n  ]"
        else:
            text = _SMALL(value)
        fields.append(f"  {_ENCODE(name)}: {text}")
    return json_text("{\n" + ",\n".join(fields) + "\n}\n")


def text_of(value: Json) -> JsonText:
    """Return a value as :func:`dump` writes it inside an array."""
    return JsonText(_ENCODE(value))


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


def value_text(value: float | None) -> str:
    """Return the result of :func:`value_json` as :func:`text_of` writes it."""
    if value is not None and 0 < value <= _EXACT:
        integer = int(value)
        return str(integer) if integer == value else repr(value)
    json_value = value_json(value)
    if json_value is None:
        return "null"
    return f'"{json_value}"' if isinstance(json_value, str) else repr(json_value)
