"""Quota values as people write them: ``10485760 (10 MiB/s)``, ``50.5 %``, ``10/s``."""

import math
from typing import Final

from reconciler.quota.keys import LONG_MAX, RULES, Key

UNSET: Final = "-"
"""What stands where no value is set; never 0, which Kafka knows as another thing."""

BINARY: Final = (("TiB/s", 2**40), ("GiB/s", 2**30), ("MiB/s", 2**20), ("KiB/s", 2**10))
DECIMAL: Final = (("TB/s", 10**12), ("GB/s", 10**9), ("MB/s", 10**6), ("kB/s", 10**3))


def number(value: float | None) -> str:
    """The exact value: whole numbers without a point, 2^63 as Kafka's 9223372036854775807."""
    if value is None:
        return UNSET
    if value == float(LONG_MAX):
        return str(LONG_MAX)
    if math.isfinite(value) and float(value).is_integer() and abs(value) < 1e21:
        return str(int(value))
    return repr(value)


def byte_rate(value: float) -> str:
    """``10 MiB/s``, ``20 MB/s``, ``≈ 9.54 MiB/s``: the unit in which the number is round, if there is one."""
    # Brokers before 4.4 store infinities and NaN, and so do tools that write the log directly.
    if not math.isfinite(value):
        return f"{number(value)} B/s"
    for name, size in (*BINARY, *DECIMAL):
        scaled = value / size
        if scaled >= 1 and scaled * 4 == math.floor(scaled * 4) and scaled < 1024:
            return f"{scaled:g} {name}"
    for name, size in BINARY:
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


def limit(key: Key, value: float | None) -> str:
    """Exact number and, where that helps, the same for people: ``10485760 (10 MiB/s)``."""
    if value is None:
        return UNSET
    if RULES[key].is_bytes:
        return (
            f"{number(value)} ({quantity(key, value)})" if value >= 1000 else f"{number(value)} B/s"
        )
    return quantity(key, value)
