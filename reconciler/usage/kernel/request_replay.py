"""What a limit on bytes does to recorded use, request by request where the closed form says that clients may wait.

A reading is the mean of ten seconds, and what it hides is computed thrice (:class:`Spread`). The replay covers *episodes*:
the time in which clients that get half of their limit would wait, and a little before. Episodes with the longest waits come
first; when :data:`MOST_STEPS` requests are replayed, the closed form takes over, and the forecast says so.
"""

from enum import Enum, auto
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from reconciler.usage.clients import ROUND_TRIP_MS, Requests, Span
from reconciler.usage.kernel.series import IntColumn
from reconciler.usage.kernel.throttling import Demand, backlogs, delay_ms
from reconciler.usage.samples import ThrottleModel
from reconciler.usage.throttle_models import (
    DELIVERY_TIMEOUT_MS,
    LONGEST_MS,
    MIN_DELAY_MS,
    Forecast,
)

FloatColumn: TypeAlias = npt.NDArray[np.float64]

MOST_STEPS: Final = 300_000
"""Maximum number of requests that are replayed for one series and limit."""

QUANTUM_MS: Final = Span(50, 250)
"""The time of the limit in which bytes arrive at once; the more throttled time there is, the longer."""

BURST_MS: Final = 1_000
"""The length of a burst that a reading may hide: a sample of Kafka, which does not see a shorter one either."""

MARGIN: Final = 2
"""Readings before an episode and behind it: more than the window of a quota."""

SEED: Final = 1


class Spread(Enum):
    """How the bytes of a reading are spread over its time."""

    EVEN = auto()
    STEPS = auto()  # between two other levels: first all of the one, then all of the other
    BURSTS = auto()  # what exceeds the lower neighbour within a second, beside the higher one


def likely(demand: Demand, limit: int, requests: Requests) -> Forecast:
    """Compute the effect of a limit for the likely spread of readings; of several connections the median of three cases.

    Raises:
        QuotaValueError: The limit allows more than a series may hold.
    """
    seeds = range(1 if requests.connections == 1 else 3)
    cases = [replayed(demand, limit, requests, Spread.STEPS, seed) for seed in seeds]
    return sorted(cases, key=lambda case: (case.max_delay_ms or 0, case.throttled_ms))[
        len(cases) // 2
    ]


class Episode(NamedTuple):
    """Readings that are replayed together, and the largest backlog by the closed form."""

    begin: int
    end: int  # exclusive
    backlog: int


def replayed(
    demand: Demand, limit: int, requests: Requests, spread: Spread, seed: int = 0
) -> Forecast:
    """Compute the effect of a limit in bytes per second on one bucket on one broker.

    Raises:
        QuotaValueError: The limit allows more than a series may hold.
    """
    closed = backlogs(demand, limit)
    late = very_late = worst = delayed = 0.0
    unfinished, left, is_cut = 0, MOST_STEPS, False
    ends = set(demand.ends.tolist())
    case = Case(demand, limit, requests, spread, seed, _quantum_ms(demand, limit, closed))
    for episode in episodes(demand, limit, closed):
        part = slice(episode.begin, episode.end)
        if left > 0:
            waits = _replayed(case, episode, left)
            left -= waits.steps
            late, very_late = late + waits.late_ms, very_late + waits.very_late_ms
            worst, delayed = max(worst, waits.worst_ms), delayed + waits.delayed
            unfinished += waits.is_unfinished and episode.end - 1 in ends
            part = slice(episode.begin + waits.reached, episode.end)
        if part.start < part.stop:
            is_cut = True
            backlog, lengths = closed[part], demand.dt_ms[part]
            late += int(lengths[backlog * 1000 >= limit * MIN_DELAY_MS].sum())
            very_late += int(lengths[backlog // limit > DELIVERY_TIMEOUT_MS // 1000].sum())
            worst = max(worst, delay_ms(int(backlog.max()), limit))
            delayed += int(np.minimum(backlog, demand.units[part]).sum())
            unfinished += bool(backlog[-1]) and episode.end - 1 in ends
    return Forecast(
        model=ThrottleModel.BACKLOG,
        samples=demand.units.size,
        covered_ms=demand.covered_ms,
        arrived_units=demand.arrived_units,
        throttled_ms=round(late),
        max_delay_ms=min(LONGEST_MS, round(worst)),
        over_timeout_ms=round(very_late),
        delayed_units=min(demand.arrived_units, round(delayed)),
        unfinished=unfinished,
        is_cut=is_cut,
    )


def episodes(demand: Demand, limit: int, closed: IntColumn) -> list[Episode]:
    """Return the episodes, that with the largest backlog first.

    Clients get at least half of their limit. Of longer readings a burst may be longer, too: so many seconds of the limit as
    the window of a quota has must hold it.
    """
    if not demand.units.size:
        return []
    longest = max(2, 2 * int(demand.dt_ms.max()) // 10_000)
    is_warm = backlogs(demand, max(1, limit // longest)) > 0
    session = np.zeros(demand.units.size, np.int64)
    session[demand.begins[1:]] = 1
    session = np.cumsum(session)
    for _ in range(MARGIN):
        wider = is_warm.copy()
        same = session[1:] == session[:-1]
        wider[:-1] |= is_warm[1:] & same
        wider[1:] |= is_warm[:-1] & same
        is_warm = wider
    is_edge = np.flatnonzero(np.diff(np.where(is_warm, session, -1), prepend=-1, append=-1))
    found = [
        Episode(int(begin), int(end), int(closed[begin:end].max()))
        for begin, end in pairwise(is_edge)
        if is_warm[begin]
    ]
    return sorted(found, key=lambda episode: (-episode.backlog, episode.begin))


class Case(NamedTuple):
    """One assumption about clients and readings."""

    demand: Demand
    limit: int
    requests: Requests
    spread: Spread
    seed: int
    quantum_ms: int  # bytes that arrive within this time of the limit arrive at once


def _quantum_ms(demand: Demand, limit: int, closed: IntColumn) -> int:
    """Return a quantum with which most of the throttled time can be replayed."""
    is_busy = (closed > 0) | (10 * demand.rate_units > 8 * limit)
    busy_ms = 1000 * int(demand.units[is_busy].sum()) // limit
    return min(max(QUANTUM_MS.least, 2 * busy_ms // MOST_STEPS), QUANTUM_MS.most)


class _Waits(NamedTuple):
    """As of the loop; ``reached`` is the number of readings that were replayed."""

    late_ms: float
    very_late_ms: float
    worst_ms: float
    delayed: float
    is_unfinished: bool
    reached: int
    steps: int


def _replayed(case: Case, episode: Episode, steps: int) -> _Waits:
    # Numba takes half a second to load, and most plans delay nobody.
    from reconciler.usage.kernel import request_loop  # noqa: PLC0415

    demand, limit, requests = case.demand, case.limit, case.requests
    lengths, rates = parts(demand, case.spread, episode)
    content, inflation = records(rates, requests)
    units = content * lengths / 1000
    begin = np.concatenate(([0.0], np.cumsum(lengths)[:-1]))
    quantum = max(1, limit * case.quantum_ms // 1000)
    size = requests.most_bytes * max(1, quantum // requests.most_bytes)
    if not requests.is_produce:
        size = min(size, 10 * limit)  # getMaxValueInQuotaWindow
    waits = request_loop.compiled()(
        np.stack((begin, lengths, units, inflation, resumes(rates, limit)), axis=1),
        request_loop.Requests(
            requests.is_produce,
            float(size),
            float(min(requests.most_bytes, size)),
            float(requests.part_bytes),
            float(max(requests.part_bytes, quantum)),
            float(requests.overhead if requests.part_bytes else 0),
            requests.connections,
        ),
        float(limit),
        SEED + case.seed,
        steps,
    )
    ends = np.cumsum(demand.dt_ms[episode.begin : episode.end])
    return _Waits(
        late_ms=waits.late_ms,
        very_late_ms=waits.very_late_ms,
        worst_ms=waits.worst_ms,
        delayed=waits.delayed,
        is_unfinished=waits.is_unfinished,
        reached=int(np.searchsorted(ends, waits.reached_ms, side="right")),
        steps=waits.steps,
    )


def parts(demand: Demand, spread: Spread, episode: Episode) -> tuple[FloatColumn, FloatColumn]:
    """Return lengths in milliseconds and rates of two parts of each reading of an episode, one after the other."""
    part = slice(episode.begin, episode.end)
    rate, length = demand.rate_units[part].astype(float), demand.dt_ms[part].astype(float)
    before = np.concatenate((rate[:1], rate[:-1]))
    after = np.concatenate((rate[1:], rate[-1:]))
    first, rates = length, (rate, rate)
    if spread is Spread.STEPS:
        between = (np.minimum(before, after) < rate) & (rate < np.maximum(before, after))
        first = length * np.divide(
            after - rate, after - before, out=np.ones_like(rate), where=between
        )
        rates = np.where(between, before, rate), np.where(between, after, rate)
    elif spread is Spread.BURSTS:
        base = np.minimum(rate, np.minimum(before, after))
        burst = np.minimum(BURST_MS, length / 2)
        high = base + (rate - base) * length / burst
        is_last = after > before
        first = np.where(is_last, length - burst, burst)
        rates = np.where(is_last, base, high), np.where(is_last, high, base)
    return np.stack((first, length - first), axis=1).ravel(), np.stack(rates, axis=1).ravel()


def records(rates: FloatColumn, requests: Requests) -> tuple[FloatColumn, FloatColumn]:
    """Return the bytes of records per second, and the bytes counted for each of them, where nothing waits.

    A connection with n records per second sends ``1 + n * T`` of them in a request, where T is the time in which it collects
    them. So of its recorded rate r, ``r = n * part + n * overhead / (1 + n * T)``.
    """
    part, overhead = float(requests.part_bytes), float(requests.overhead)
    if not part:
        return rates, np.ones_like(rates)
    each = rates / requests.connections
    collects = (requests.linger_ms + ROUND_TRIP_MS) / 1000
    linear = part + overhead - each * collects
    root = np.sqrt(linear * linear + 4 * part * collects * each)
    content = (root - linear) / (2 * collects) * requests.connections
    inflation = np.divide(rates, content, out=np.ones_like(rates), where=content > 0)
    return content, inflation


def resumes(rates: FloatColumn, limit: int) -> IntColumn:
    """Return for each part of a reading the part at which a replay may go on if nothing waits."""
    hot = np.flatnonzero(rates > 0.8 * limit)
    at = np.arange(rates.size, dtype=np.int64)
    place = np.searchsorted(hot, at - 2 * MARGIN)
    following = np.append(hot, rates.size + 2 * MARGIN)[place]
    resume: IntColumn = np.minimum(np.maximum(at, following - 2 * MARGIN), rates.size)
    return resume
