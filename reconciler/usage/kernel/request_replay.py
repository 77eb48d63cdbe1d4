"""What a limit on bytes does to recorded use, request by request where the closed form says that clients may wait.

A reading is the mean of ten seconds, and what it hides is computed thrice (:class:`Spread`). The replay covers *episodes*:
the time in which clients that get half of their limit would wait, and a little before. Episodes with the longest waits come
first; after :data:`MOST_STEPS` the closed form takes over, with what consumers got of their limit so far, and the forecast
says so.
"""

from dataclasses import dataclass
from enum import Enum, auto
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from reconciler.usage.clients import ROUND_TRIP_MS, Requests, Span
from reconciler.usage.kernel import request_loop
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

MOST_STEPS: Final = 30_000
"""Maximum number of requests and of lumps that arrive, which are replayed for one series and limit."""

EPISODE_STEPS: Final = 300
"""So many steps take as long as the preparation of an episode."""

QUANTUM_MS: Final = Span(50, 250)
"""The time of the limit in which bytes arrive at once; the more throttled time there is, the longer."""

LONG_QUANTUM_MS: Final = 1_000
"""The longest such time if requests hold many seconds of the limit: an eighth of a request."""

BURST_MS: Final = 1_000
"""The length of a burst that a reading may hide: a sample of Kafka, which does not see a shorter one either."""

HOT: Final = 0.8
"""The part of the limit below which clients do not begin to wait."""

PEAK: Final = 1.5
"""A reading that exceeds both neighbours more is a peak, and not the noise of steady clients."""

MARGIN: Final = 2
"""Readings before an episode and behind it: more than the window of a quota."""

SEED: Final = 1


class Spread(Enum):
    """How the bytes of a reading are spread over its time."""

    EVEN = auto()
    # Between two other levels: first all of the one, then all of the other. A peak beside its higher neighbour, in half of
    # its time: that is the mean of all lengths that it may have.
    STEPS = auto()
    BURSTS = auto()  # what exceeds the lower neighbour within a second, beside the higher one


class Episode(NamedTuple):
    """Readings that are replayed together, and the largest backlog by the closed form."""

    begin: int
    end: int  # exclusive
    backlog: int
    peak: int  # the largest rate


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LimitedDemand:
    """The demand of one bucket on one broker under a limit in bytes per second: what all cases have in common."""

    demand: Demand
    limit: int
    closed: IntColumn  # backlogs, as in :mod:`reconciler.usage.kernel.throttling`
    episodes: tuple[Episode, ...]
    busy_ms: int  # time of the limit in which clients may wait


def limited(demand: Demand, limit: int) -> LimitedDemand:
    """Find what is to be replayed under a limit.

    Raises:
        QuotaValueError: The limit allows more than a series may hold.
    """
    closed = backlogs(demand, limit)
    is_busy = (closed > 0) | (demand.rate_units > HOT * limit)
    return LimitedDemand(
        demand=demand,
        limit=limit,
        closed=closed,
        episodes=episodes(demand, limit, closed),
        busy_ms=1000 * int(demand.units[is_busy].sum()) // limit,
    )


def episodes(demand: Demand, limit: int, closed: IntColumn) -> tuple[Episode, ...]:
    """Return the episodes, that with the largest backlog first.

    Clients get at least half of their limit. Of longer readings a burst may be longer, too: so many seconds of the limit as
    the window of a quota has must hold it.
    """
    if not demand.units.size:
        return ()
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
    sections = [
        Episode(
            int(begin),
            int(end),
            int(closed[begin:end].max()),
            int(demand.rate_units[begin:end].max()),
        )
        for begin, end in pairwise(is_edge)
        if is_warm[begin]
    ]
    return tuple(sorted(sections, key=lambda episode: (-episode.backlog, episode.begin)))


def likely(work: LimitedDemand, requests: Requests) -> Forecast:
    """Compute the effect of a limit for the likely spread of readings; of several connections the median of three cases."""
    seeds = range(1 if requests.connections == 1 else 3)
    cases = [replayed(work, requests, Spread.STEPS, seed) for seed in seeds]
    return sorted(cases, key=lambda case: (case.max_delay_ms or 0, case.throttled_ms))[
        len(cases) // 2
    ]


def replayed(work: LimitedDemand, requests: Requests, spread: Spread, seed: int = 0) -> Forecast:
    """Compute the effect of a limit in one case of requests, spread and chance."""
    demand = work.demand
    late = very_late = worst = delayed = served = 0.0
    unfinished, remaining_steps = 0, MOST_STEPS
    ends = set(demand.ends.tolist())
    is_cut = np.zeros(demand.units.size, np.bool_)
    case = Case(work, requests, spread, seed)
    for episode in work.episodes:
        if spread is Spread.EVEN and episode.peak <= HOT * work.limit:
            continue
        reached = episode.begin
        if remaining_steps > 0:
            waits = _replayed(case, episode, remaining_steps)
            remaining_steps -= waits.steps + EPISODE_STEPS
            late, very_late = late + waits.late_ms, very_late + waits.very_late_ms
            worst, delayed = max(worst, waits.worst_ms), delayed + waits.delayed
            served += waits.late_served
            unfinished += waits.is_unfinished and episode.end - 1 in ends
            reached += waits.reached
        is_cut[reached : episode.end] = True
    if is_cut.any():
        obtained = work.limit if requests.is_produce else _obtained(work.limit, late, served)
        closed = work.closed if obtained == work.limit else backlogs(demand, obtained)
        backlog = np.where(is_cut, closed, 0)
        late += int(demand.dt_ms[backlog * 1000 >= obtained * MIN_DELAY_MS].sum())
        very_late += int(demand.dt_ms[backlog // obtained > DELIVERY_TIMEOUT_MS // 1000].sum())
        worst = max(worst, delay_ms(int(backlog.max()), obtained))
        delayed += int(np.minimum(backlog, demand.units).sum())
        unfinished += int((backlog[demand.ends] > 0).sum())
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
        is_cut=bool(is_cut.any()),
    )


def _obtained(limit: int, late_ms: float, served: float) -> int:
    """Return what waiting consumers got of their limit where they were replayed; it is at least half."""
    share = 1000 * served / (limit * late_ms) if late_ms else 1.0
    return max(1, round(limit * min(max(0.5, share), 1.0)))


class Case(NamedTuple):
    """One assumption about clients and readings."""

    work: LimitedDemand
    requests: Requests
    spread: Spread
    seed: int


class _EpisodeWaits(NamedTuple):
    """As of the loop; ``reached`` is the number of readings that were replayed."""

    late_ms: float
    very_late_ms: float
    worst_ms: float
    delayed: float
    late_served: float
    is_unfinished: bool
    reached: int
    steps: int


def _replayed(case: Case, episode: Episode, steps: int) -> _EpisodeWaits:
    demand, limit, requests = case.work.demand, case.work.limit, case.requests
    quantum = max(1, limit * _quantum_ms(case.work, requests) // 1000)
    episode = _within_reach(case, episode, 3 * steps * max(requests.part_bytes, quantum) // 2)
    lengths, rates = parts(demand, case.spread, episode)
    content, inflation = records(rates, requests)
    units = content * lengths / 1000
    begin = np.concatenate(([0.0], np.cumsum(lengths)[:-1]))
    size = requests.most_bytes * max(1, quantum // requests.most_bytes)
    if not requests.is_produce:
        size = min(size, 10 * limit)  # getMaxValueInQuotaWindow
    waits = request_loop.compiled()(
        np.stack((begin, lengths, units, inflation, resumes(rates, limit)), axis=1),
        request_loop.RequestShape(
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
    return _EpisodeWaits(
        late_ms=waits.late_ms,
        very_late_ms=waits.very_late_ms,
        worst_ms=waits.worst_ms,
        delayed=waits.delayed,
        late_served=waits.late_served,
        is_unfinished=waits.is_unfinished,
        reached=int(np.searchsorted(ends, waits.reached_ms, side="right")),
        steps=waits.steps,
    )


def _quantum_ms(work: LimitedDemand, requests: Requests) -> int:
    """Return a quantum with which most of the throttled time can be replayed."""
    request_ms = 1000 * requests.most_bytes // work.limit
    most = max(QUANTUM_MS.most, min(request_ms // 8, LONG_QUANTUM_MS))
    return min(max(QUANTUM_MS.least, 3 * work.busy_ms // MOST_STEPS), most)


def _within_reach(case: Case, episode: Episode, most_bytes: int) -> Episode:
    """Return an episode without readings behind so many bytes: the steps end before them."""
    demand, part = case.work.demand, slice(episode.begin, episode.end)
    # Other readings may be passed over, and a part of what a broker counts is no records.
    is_hot = demand.rate_units[part] > HOT * case.work.limit
    counted = np.cumsum(np.where(is_hot, demand.units[part], 0))
    beside = case.requests.overhead / case.requests.part_bytes if case.requests.part_bytes else 0
    last = int(np.searchsorted(counted, most_bytes * (1 + beside))) + 1
    return episode._replace(end=min(episode.end, episode.begin + last))


def parts(demand: Demand, spread: Spread, episode: Episode) -> tuple[FloatColumn, FloatColumn]:
    """Return lengths in milliseconds and rates of two parts of each reading of an episode, one after the other."""
    part = slice(episode.begin, episode.end)
    rate, length = demand.rate_units[part].astype(float), demand.dt_ms[part].astype(float)
    before, after = _neighbours(rate)
    first, rates = length, (rate, rate)
    if spread is Spread.STEPS:
        between = (np.minimum(before, after) < rate) & (rate < np.maximum(before, after))
        first = length * np.divide(
            after - rate, after - before, out=np.ones_like(rate), where=between
        )
        base = np.maximum(before, after)
        is_rising = after > before
        is_peak = (rate > PEAK * base) & (rate - base > _beside(before, after))
        first = np.where(is_peak, length / 2, first)
        high = np.where(is_peak, 2 * rate - base, rate)
        low = np.where(is_peak, base, rate)
        rates = (
            np.where(between, before, np.where(is_rising, low, high)),
            np.where(between, after, np.where(is_rising, high, low)),
        )
    elif spread is Spread.BURSTS:
        base = np.minimum(rate, np.minimum(before, after))
        burst = np.minimum(BURST_MS, length / 2)
        high = base + (rate - base) * length / burst
        is_last = after > before
        first = np.where(is_last, length - burst, burst)
        rates = np.where(is_last, base, high), np.where(is_last, high, base)
    return np.stack((first, length - first), axis=1).ravel(), np.stack(rates, axis=1).ravel()


def _beside(before: FloatColumn, after: FloatColumn) -> FloatColumn:
    """Return by how much the neighbours of readings exceed theirs: a burst that reaches into them is longer than a reading."""
    rise, fall = before - _neighbours(before)[0], after - _neighbours(after)[1]
    return np.maximum(rise, 0) + np.maximum(fall, 0)


def _neighbours(rate: FloatColumn) -> tuple[FloatColumn, FloatColumn]:
    """Return the readings before and after each one; at an end the reading itself."""
    return np.concatenate((rate[:1], rate[:-1])), np.concatenate((rate[1:], rate[-1:]))


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
    hot = np.flatnonzero(rates > HOT * limit)
    at = np.arange(rates.size, dtype=np.int64)
    place = np.searchsorted(hot, at - 2 * MARGIN)
    following = np.append(hot, rates.size + 2 * MARGIN)[place]
    resume: IntColumn = np.minimum(np.maximum(at, following - 2 * MARGIN), rates.size)
    return resume
