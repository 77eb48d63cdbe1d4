"""Samples of use and their units: rates and limits as integers, the cadence of readings, and gaps.

Rates and limits are integers in *units* (:data:`SCALE`): a byte/s, or a millionth of a percent, of a mutation/s, of a
connection/s. So sums do not depend on their order, and all implementations give the same rows.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum
from typing import Final

from reconciler.errors import QuotaValueError
from reconciler.quota.keys import RULES, Key

MILLION: Final = 1_000_000
DAY_MS: Final = 86_400_000
LATEST_MOMENT_MS: Final = 253_402_300_799_000
"""The end of the year 9999, the last year of Python's ``datetime``."""

_FIRST_DAY: Final = date(1970, 1, 1)

MAX_UNITS: Final = 10_000_000_000_000
"""Rates are capped at this number of units, and a limit at or above it is unlimited.

A unit times the longest gap in milliseconds must fit 64 bits: 10^13 x 300,000 does, 2^63 bytes/s does not.
"""

WINDOW_MS: Final = 11_000
"""The time that one reading of a rate covers: 11 windows of 1 s (quota.window.num, quota.window.size.seconds)."""

LEAST_STEP_MS: Final = 9_500
"""Closer samples are thinned: ten full windows, the least that one reading covers, minus half a second of jitter.

Measured against the broker model of the tests, 75 cases: at 10 s all were within 10 % or a minute; thinned from 10 s to
20 s, one in fifteen was not; at 1 s, without thinning, short bursts count several times.
"""

MAX_GAP_MS: Final = 300_000
"""The largest ``max_gap_ms`` of any cadence."""


class QuotaType(StrEnum):
    """The quota types that brokers measure, as spelled in ``usage_sample``; each has one quota key."""

    PRODUCE = "produce"
    FETCH = "fetch"
    REQUEST = "request"
    CONTROLLER_MUTATION = "controller_mutation"
    IP = "ip"


class ThrottleModel(StrEnum):
    """The broker's treatment of use above the limit."""

    BACKLOG = "backlog"  # delayed until it fits: produce and fetch
    TOKENS = "tokens"  # a token bucket: partition mutations, on the active controller
    REJECTED = "rejected"  # closed, not queued: connections of an address
    APPROXIMATE = "approximate"  # delayed by at most 1 s: request time; only the time over the limit is forecast


CONTROLLER: Final = "controller"
"""The ``broker_id`` of partition mutations, for any active controller, so that a series continues after a failover."""

KEY_OF: Final[dict[QuotaType, Key]] = {
    QuotaType.PRODUCE: Key.PRODUCER_BYTE_RATE,
    QuotaType.FETCH: Key.CONSUMER_BYTE_RATE,
    QuotaType.REQUEST: Key.REQUEST_PERCENTAGE,
    QuotaType.CONTROLLER_MUTATION: Key.CONTROLLER_MUTATION_RATE,
    QuotaType.IP: Key.CONNECTION_CREATION_RATE,
}
TYPE_OF: Final[dict[Key, QuotaType]] = {key: kind for kind, key in KEY_OF.items()}

MODEL_OF: Final[dict[QuotaType, ThrottleModel]] = {
    QuotaType.PRODUCE: ThrottleModel.BACKLOG,
    QuotaType.FETCH: ThrottleModel.BACKLOG,
    QuotaType.REQUEST: ThrottleModel.APPROXIMATE,
    QuotaType.CONTROLLER_MUTATION: ThrottleModel.TOKENS,
    QuotaType.IP: ThrottleModel.REJECTED,
}

SCALE: Final[dict[QuotaType, int]] = {
    kind: 1 if RULES[key].is_bytes else MILLION for kind, key in KEY_OF.items()
}
"""Number of units in one of Kafka's units (byte/s, percent of a thread, mutation/s, connection/s)."""


class ValueState(StrEnum):
    """The meaning of a stored limit for arithmetic."""

    FINITE = "finite"
    UNLIMITED = "unlimited"  # at or above MAX_UNITS, including infinity: never simulated
    INVALID = "invalid"  # NaN, zero or negative: accepted by old brokers, cannot be simulated


class Censored(StrEnum):
    """Whether a recorded rate is less than what the client wanted to send."""

    NO = "no"
    YES = "yes"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cadence:
    """The cadence at which a broker is read."""

    step_ms: int  # usual distance of two samples after thinning
    max_gap_ms: int  # a longer distance ends a session: use in between is unknown

    def __post_init__(self) -> None:
        if not 0 < self.step_ms <= self.max_gap_ms <= MAX_GAP_MS:
            raise QuotaValueError(
                f"a scrape step of {self.step_ms} ms with gaps of up to {self.max_gap_ms} ms:"
                f" both must be positive, the step not above the gap, the gap not above {MAX_GAP_MS} ms"
            )

    @property
    def coverage_ppm(self) -> int:
        """The share of time that readings cover, in millionths: a gauge only covers its window."""
        return min(MILLION, WINDOW_MS * MILLION // self.step_ms)


def cadence(scrape_ms: int, max_gap_ms: int | None = None) -> Cadence:
    """Return the cadence of samples that are read every ``scrape_ms`` and then thinned (:func:`thinned`).

    The step is the smallest multiple of the scrape step that thinning keeps; the gap is five steps, at most five
    minutes, unless given.

    Raises:
        QuotaValueError: The step is not positive or longer than the gap.
    """
    step = scrape_ms if scrape_ms <= 0 else -(-LEAST_STEP_MS // scrape_ms) * scrape_ms
    return Cadence(
        step_ms=step, max_gap_ms=min(5 * step, MAX_GAP_MS) if max_gap_ms is None else max_gap_ms
    )


def half_up(value: float) -> int:
    """Return the nearest integer, halves up: ``floor(value + 0.5)`` in float64, which gives the same result everywhere."""
    return math.floor(value + 0.5)


def limit_state(kind: QuotaType, value: float) -> ValueState:
    """Return the meaning of a stored limit."""
    if math.isnan(value) or value <= 0:
        return ValueState.INVALID
    return ValueState.UNLIMITED if value * SCALE[kind] >= MAX_UNITS else ValueState.FINITE


def limit_units(kind: QuotaType, value: float | None) -> int | None:
    """Return a limit in units, at least one; ``None`` = unlimited.

    Raises:
        QuotaValueError: The value is NaN, zero or negative (:attr:`ValueState.INVALID`).
    """
    if value is None:
        return None
    match limit_state(kind, value):
        case ValueState.INVALID:
            raise QuotaValueError(f"{KEY_OF[kind]} = {value} limits nothing that can be computed")
        case ValueState.UNLIMITED:
            return None
        case ValueState.FINITE:
            return min(MAX_UNITS - 1, max(1, half_up(value * SCALE[kind])))


def in_kafka_units(kind: QuotaType, units: int) -> float:
    """Convert units to the value that is written to Kafka; the inverse of :func:`limit_units`."""
    return units / SCALE[kind]


def day_of(ts_ms: int) -> date:
    """Return the UTC day of a moment."""
    return _FIRST_DAY + timedelta(days=ts_ms // DAY_MS)


def start_of(day: date) -> int:
    """Return the first millisecond of a UTC day."""
    return (day - _FIRST_DAY).days * DAY_MS


def thinned(scrapes: Iterable[int], least_ms: int = LEAST_STEP_MS) -> tuple[int, ...]:
    """Return the scrapes of a broker to keep, so that two do not overlap: closer ones count the same bytes twice.

    Decided for all scrapes of the broker and not for each series, so that its series stay aligned and can be added.
    Thinning restarts each UTC day: so a late scrape changes only its own day, and a day that is ingested alone equals the
    day of a rebuild. (Only across midnight two kept scrapes may be closer.)

    Args:
        scrapes: Milliseconds, ascending.
        least_ms: Smallest distance.
    """
    thinned_times: list[int] = []
    for ts in scrapes:
        if (
            not thinned_times
            or ts - thinned_times[-1] >= least_ms
            or ts // DAY_MS != thinned_times[-1] // DAY_MS
        ):
            thinned_times.append(ts)
    return tuple(thinned_times)


def spans(times: Sequence[int], pace: Cadence, before_ms: int | None = None) -> tuple[int, ...]:
    """Return the time that each moment covers: since the one before, or a step at the start of a session.

    Args:
        times: Milliseconds, strictly ascending.
        pace: Step and gap.
        before_ms: The moment before the first, if known.

    Raises:
        QuotaValueError: Two moments are equal or out of order: a series was read twice or is not sorted.
    """
    durations: list[int] = []
    last = before_ms
    for ts in times:
        distance = pace.step_ms if last is None else ts - last
        if distance <= 0:
            raise QuotaValueError(f"samples must ascend: {ts} comes after {last}")
        durations.append(pace.step_ms if distance > pace.max_gap_ms else distance)
        last = ts
    return tuple(durations)
