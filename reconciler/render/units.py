"""Numbers for people: quota values with units, fractions, ages. The exact number is always shown beside."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, TypeGuard

from reconciler.quota.keys import (
    BINARY,
    DECIMAL,
    LONG_MAX,
    RULES,
    UNSET,
    Key,
    byte_rate,
    limit,
    number,
    quantity,
)

__all__ = [
    "PER_BROKER",
    "UNSET",
    "age",
    "byte_rate",
    "count",
    "instant",
    "json_number",
    "limit",
    "named_clients",
    "number",
    "quantities",
    "quantity",
]

_AGES: Final = ((86_400, "d"), (3_600, "h"), (60, "min"))

_ELSEWHERE: Final = "; ".join(
    f"{key}: at {place}" for key, rule in RULES.items() if (place := rule.unit.partition(" at ")[2])
)
PER_BROKER: Final = f"Limits apply per broker ({_ELSEWHERE})."
"""Shown wherever a number could be read as a total of the cluster."""


def json_number(value: float | None) -> float | int | None:
    """Return the number for JSON: whole numbers that float64 represents exactly become integers."""
    if value is not None and abs(value) <= 2**53 and value.is_integer():
        return int(value)
    return value


def quantities(key: Key, before: float | None, after: float | None) -> tuple[str, str]:
    """Return two values of a key in one unit, without exact numbers: ``≈ 4.77 MiB/s`` and ``10 MiB/s``.

    The unit is the one in which the new value is round (else the old one), as large as keeps both above 0.01.
    """
    values = [value for value in (after, before) if _has_unit(value)]
    if not RULES[key].is_bytes or len(values) < 2:
        return quantity(key, before), quantity(key, after)
    smallest, largest = min(map(abs, values)), max(map(abs, values))
    units = next(filter(None, map(_round_units, values)), BINARY)
    for name, size in units:
        if size <= largest < 1024 * size and smallest >= 0.01 * size:
            return _in_unit(values[1], name, size), _in_unit(values[0], name, size)
    return quantity(key, before), quantity(key, after)


def _has_unit(value: float | None) -> TypeGuard[float]:
    """Whether a value can be written in any unit: neither unset, nor infinite, nor Kafka's maximum."""
    return value is not None and math.isfinite(value) and value != float(LONG_MAX)


def _round_units(value: float) -> Sequence[tuple[str, int]]:
    """Return the family of units in which :func:`byte_rate` writes a value exactly; empty = in none."""
    text = byte_rate(value)
    return next(
        (
            units
            for units in (BINARY, DECIMAL)
            if text[:1] != "≈" and any(text.endswith(f" {name}") for name, _ in units)
        ),
        (),
    )


def _in_unit(value: float, name: str, size: int) -> str:
    scaled = value / size
    scaled_text = f"{scaled:.3g}" if abs(scaled) < 999.5 else f"{scaled:.0f}"
    return f"{'' if float(scaled_text) == scaled else '≈ '}{scaled_text} {name}"


def age(seconds: float) -> str:
    """Return ``3 d``, ``2 h``, ``5 min``, ``40 s``; never negative."""
    for size, name in _AGES:
        if seconds >= size:
            return f"{seconds // size:.0f} {name}"
    return f"{max(seconds, 0):.0f} s"


def instant(when: float) -> str:
    """Return seconds since the epoch as ``2025-11-21T12:00:00Z``."""
    return datetime.fromtimestamp(when, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def named_clients(amount: int) -> str:
    """Return the number of clients that plans resolve: those that are named somewhere."""
    return count(
        amount,
        "client with a limit or a login of its own",
        "clients with a limit or a login of their own",
    )


def count(amount: int, noun: str, plural: str = "") -> str:
    """Return ``1 change``, ``2 changes``."""
    return f"{amount:,} {noun if amount == 1 else plural or noun + 's'}"
