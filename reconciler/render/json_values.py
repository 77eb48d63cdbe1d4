"""Values and documents as JSON: one form for all documents. `reconciler.codecs` reads them."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias, cast

from msgspec import Struct

from reconciler.base.compact_json import compact, exact, lines
from reconciler.base.output_text import json_text
from reconciler.quota.results.audit_entry import WrittenValue
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


def dump(document: "Mapping[str, Json | Sequence[Struct]]") -> str:
    """Return the document as text: one field per line, long arrays with one item per line, sorted, ASCII.

    So a line of a diff is a fact that changed, and 30,000 rows are written at the speed of the C encoder. Typed rows
    declare their fields in alphabetical order.
    """
    pieces = ["{\n"]  # joined once: a copy of 30,000 rows costs as much as their encoding
    for name in sorted(document):
        value = document[name]
        pieces.append(("" if len(pieces) == 1 else ",\n") + f"  {_ENCODE(name)}: ")
        if not (isinstance(value, list) and value):
            pieces.append(_SMALL(value))
        elif isinstance(value[0], Struct):
            rows = str(memoryview(lines(value))[:-1], "ascii").replace("\n", ",\n    ")
            pieces += ("[\n    ", rows, "\n  ]")
        else:
            pieces += ("[\n    ", ",\n    ".join(map(_ENCODE, value)), "\n  ]")
    return json_text("".join((*pieces, "\n}\n")))


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
    if value is None or (1.0 <= value <= _EXACT and value.is_integer()):
        return value and int(value)
    result = value_json(value)
    return exact(result) if isinstance(result, float) else cast("WrittenValue", result)


def read_value(value: WrittenValue) -> float | None:
    """Return the quota value that :func:`written_value` wrote."""
    return None if value is None else SPECIAL[value] if isinstance(value, str) else float(value)
