"""Times in files: in which unit they are written, and as milliseconds."""

import math
from enum import StrEnum
from typing import Final

from reconciler.evidence.ingest.readers.response_series import milliseconds


class TimeUnit(StrEnum):
    """How times are written; ``auto`` distinguishes seconds, milliseconds, micro- and nanoseconds by their size."""

    AUTO = "auto"
    SECONDS = "s"
    MILLISECONDS = "ms"
    MICROSECONDS = "us"
    NANOSECONDS = "ns"
    ISO = "iso"


_PER_MS: Final = {
    TimeUnit.SECONDS: 0.001,
    TimeUnit.MILLISECONDS: 1.0,
    TimeUnit.MICROSECONDS: 1e3,
    TimeUnit.NANOSECONDS: 1e6,
}


def moment(number: float, unit: TimeUnit) -> int | None:
    """A time in milliseconds; ``None`` = it is none in this unit."""
    if unit is TimeUnit.ISO or not math.isfinite(number):
        return None
    if unit is TimeUnit.AUTO:
        unit = _by_size(abs(number))
    if unit is TimeUnit.SECONDS:
        return milliseconds(number)
    per_ms = _PER_MS[unit]
    time_ms = number // int(per_ms) if isinstance(number, int) else math.floor(number / per_ms)
    return time_ms if abs(time_ms) < 2**62 else None


def _by_size(number: float) -> TimeUnit:
    """The present is about 1.8 times 10^9 s; a thousand times more is the next unit."""
    if number < 1e11:
        return TimeUnit.SECONDS
    if number < 1e14:
        return TimeUnit.MILLISECONDS
    return TimeUnit.MICROSECONDS if number < 1e17 else TimeUnit.NANOSECONDS
