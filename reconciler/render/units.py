"""Numbers as people write them: quota values with units, shares, ages. The exact number always stands beside."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, TypeGuard

from reconciler.quota.keys import LONG_MAX, RULES, Key

UNSET: Final = "-"
"""What stands where no value is set; never 0, which Kafka knows as another thing."""

_BINARY: Final = (("TiB/s", 2**40), ("GiB/s", 2**30), ("MiB/s", 2**20), ("KiB/s", 2**10))
_DECIMAL: Final = (("TB/s", 10**12), ("GB/s", 10**9), ("MB/s", 10**6), ("kB/s", 10**3))
_AGES: Final = ((86_400, "d"), (3_600, "h"), (60, "min"))

PER_BROKER: Final = "Limits hold per broker (controller_mutation_rate: at the active controller)."
"""Said wherever a number could be read as a total of the cluster."""


def number(value: float | None) -> str:
    """The exact value: whole numbers without a point, 2^63 as Kafka's 9223372036854775807."""
    if value is None:
        return UNSET
    if value == float(LONG_MAX):
        return str(LONG_MAX)
    if math.isfinite(value) and value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    return repr(value)


def json_number(value: float | None) -> float | int | None:
    """The same for JSON: whole numbers that float64 holds exactly become integers; all others stay."""
    if value is not None and abs(value) <= 2**53 and value.is_integer():
        return int(value)
    return value


def byte_rate(value: float) -> str:
    """``10 MiB/s``, ``20 MB/s``, ``≈ 9.54 MiB/s``: the unit in which the number is round, if there is one."""
    # Brokers before 4.4 store infinities and NaN, and so does whoever writes the log directly.
    if not math.isfinite(value):
        return f"{number(value)} B/s"
    for name, size in (*_BINARY, *_DECIMAL):
        scaled = value / size
        if scaled >= 1 and scaled * 4 == math.floor(scaled * 4) and scaled < 1024:
            return f"{scaled:g} {name}"
    for name, size in _BINARY:
        if value >= size:
            return (
                f"≈ {value / size:.3g} {name}"
                if value < 999.5 * size  # beyond, three digits would be written 1e+03
                else f"≈ {value / size:.0f} {name}"
            )
    return f"{number(value)} B/s"


def quantity(key: Key, value: float | None) -> str:
    """A value of a key for people, without its exact number: ``10 MiB/s``, ``50.5 %``, ``10/s``."""
    if value is None:
        return "no limit"
    if RULES[key].is_bytes:
        return "2^63, the maximum" if value == float(LONG_MAX) else byte_rate(value)
    return f"{number(value)} %" if key is Key.REQUEST_PERCENTAGE else f"{number(value)}/s"


def quantities(key: Key, before: float | None, after: float | None) -> tuple[str, str]:
    """Two values of a key in one unit, without exact numbers: ``≈ 4.77 MiB/s`` and ``10 MiB/s``.

    The unit is the one in which the new value is round (else the old one), as large as keeps both above 0.01.
    """
    values = [value for value in (after, before) if _has_unit(value)]
    if not RULES[key].is_bytes or len(values) < 2:
        return quantity(key, before), quantity(key, after)
    smallest, largest = min(map(abs, values)), max(map(abs, values))
    units = next(filter(None, map(_round_units, values)), _BINARY)
    for name, size in units:
        if size <= largest and smallest >= 0.01 * size:
            return _in_unit(values[1], name, size), _in_unit(values[0], name, size)
    return quantity(key, before), quantity(key, after)


def _has_unit(value: float | None) -> TypeGuard[float]:
    """Whether a value can be written in any unit: neither unset, nor infinite, nor Kafka's maximum."""
    return value is not None and math.isfinite(value) and value != float(LONG_MAX)


def _round_units(value: float) -> Sequence[tuple[str, int]]:
    """The family of units in which :func:`byte_rate` writes a value exactly; empty = in none."""
    text = byte_rate(value)
    return next(
        (
            units
            for units in (_BINARY, _DECIMAL)
            if text[:1] != "≈" and any(text.endswith(f" {name}") for name, _ in units)
        ),
        (),
    )


def _in_unit(value: float, name: str, size: int) -> str:
    scaled = value / size
    shown = f"{scaled:.3g}" if abs(scaled) < 999.5 else f"{scaled:.0f}"
    return f"{'' if float(shown) == scaled else '≈ '}{shown} {name}"


def limit(key: Key, value: float | None) -> str:
    """Exact number and, where that helps, the same for people: ``10485760 (10 MiB/s)``."""
    if value is None:
        return UNSET
    if RULES[key].is_bytes:
        return (
            f"{number(value)} ({quantity(key, value)})" if value >= 1000 else f"{number(value)} B/s"
        )
    return quantity(key, value)


def age(seconds: float) -> str:
    """``3 d``, ``2 h``, ``5 min``, ``40 s``; never negative."""
    for size, name in _AGES:
        if seconds >= size:
            return f"{seconds // size:.0f} {name}"
    return f"{max(seconds, 0):.0f} s"


def instant(when: float) -> str:
    """Seconds since the epoch as ``2025-11-21T12:00:00Z``."""
    return datetime.fromtimestamp(when, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def count(amount: int, noun: str, plural: str = "") -> str:
    """``1 change``, ``2 changes``."""
    return f"{amount:,} {noun if amount == 1 else plural or noun + 's'}"
