"""The effect of a limit on recorded use: the backlog recursion and the other three models, for whole series.

For one bucket on one broker, samples in time order, q the limit in units (``div`` rounds down)::

    a_i = (r_i * dt_i + 500) div 1000               units that arrived
    g_i = (q * dt_i) div 1000                       units that the limit allows
    B_i = max(0, B_(i-1) + a_i - g_i)               the backlog; 0 before each session
    served_i  = a_i + B_(i-1) - B_i                 delayed_i = min(B_i, a_i)
    delay_i   = (B_i div q) * 1000 + ((B_i mod q) * 1000) div q                     milliseconds
    throttled = 1000 * B_i >= q * min_delay         which is delay_i >= min_delay

The recursion with a floor of zero is the distance of the running sum S = sum(a - g) from its minimum so far. A session
begins with an empty backlog; for that, S is reduced by all that arrived in the session before, at least its backlog.

Where requests and connections matter, it only finds the time to replay (:mod:`reconciler.usage.kernel.request_replay`).

Source: Kafka delays by X = (O - T) / T * W without a maximum for bytes (ClientQuotaManager.throttleTime), so in the
long run a client gets its limit and waits for the rest. There is deliberately no credit for a burst: with it, this
model was worse in every comparison with the sampled windows of a broker (tests/usage/test_stepper.py).
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from reconciler.errors import QuotaValueError
from reconciler.usage.kernel.series import IntColumn, SampleSeries
from reconciler.usage.samples import MAX_UNITS, MODEL_OF, QuotaType, ThrottleModel
from reconciler.usage.throttle_models import (
    BURST_WINDOWS,
    DELIVERY_TIMEOUT_MS,
    LONGEST_MS,
    MIN_DELAY_MS,
    Forecast,
)

# Whole numbers of 64 bits in columns: docs/adr/kernel-over-columns.md.
MOST_UNITS: Final = 2**62
"""Maximum of units that may arrive, or that a limit may allow, in one series: 53 days at 1 TB/s. Sums of it fit 64 bits."""

CLEAR: Final = 500
"""A limit this far above the peak allows every sample, even of 1 ms, although arrived units are rounded half up."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Demand:
    """A series prepared for any limit: values that do not depend on a limit are computed once."""

    dt_ms: IntColumn
    rate_units: IntColumn
    units: IntColumn
    begins: IntColumn
    arrived_by_session: IntColumn
    peak: int  # the largest rate; 0 without samples

    @property
    def covered_ms(self) -> int:
        """The time that the samples cover."""
        return int(self.dt_ms.sum())

    @property
    def arrived_units(self) -> int:
        """The units that arrived in total."""
        return int(self.arrived_by_session.sum())

    @property
    def ends(self) -> IntColumn:
        """The indexes at which sessions end."""
        return np.append(self.begins[1:], self.units.size) - 1


def demand_of(series: SampleSeries, max_gap_ms: int) -> Demand:
    """Prepare a series for any limit. A gap above ``max_gap_ms`` starts a session.

    Raises:
        QuotaValueError: More arrived than :data:`MOST_UNITS`.
    """
    peak, longest_ms = series.peak, int(series.dt_ms.max(initial=0))
    _check_countable((peak + CLEAR) * longest_ms, peak, longest_ms)
    units = (series.rate_units * series.dt_ms + 500) // 1000
    _check_countable(int(units.sum(dtype=np.float64)), peak, series.covered_ms)
    gaps = np.flatnonzero(np.diff(series.ts_ms) > max_gap_ms) + 1
    begins = np.concatenate((np.zeros(min(1, len(series)), dtype=np.int64), gaps))
    return Demand(
        dt_ms=series.dt_ms,
        rate_units=series.rate_units,
        units=units,
        begins=begins,
        arrived_by_session=np.add.reduceat(units, begins) if len(series) else units,
        peak=peak,
    )


def _check_countable(amount: int, rate: int, covered_ms: int) -> None:
    """Raise QuotaValueError if an amount or sums of it exceed 64 bits."""
    if amount >= MOST_UNITS:
        raise QuotaValueError(
            f"{rate:,} units per second over {covered_ms:,} ms cannot be counted: no broker moves so much",
            hint="look for samples with impossible rates, and ingest those days again without them",
        )


# No burst credit, and no estimate without its kind: docs/adr/throttle-model.md.
def simulate(
    kind: QuotaType,
    demand: Demand,
    limit: int | None,
    min_delay_ms: int = MIN_DELAY_MS,
) -> Forecast:
    """Compute the effect of a limit on one bucket on one broker.

    Args:
        demand: The demand of one bucket on one broker.
        limit: In units, at least 1 and below :data:`~reconciler.usage.samples.MAX_UNITS`; ``None`` = unlimited.
        min_delay_ms: A shorter delay is not counted as throttling; at least 1; only used for backlogs.

    Raises:
        QuotaValueError: The limit or the delay is out of range, or the limit allows more than :data:`MOST_UNITS`.
    """
    if (limit is not None and not 0 < limit < MAX_UNITS) or min_delay_ms < 1:
        raise QuotaValueError(
            f"a limit of {limit} units and a delay of {min_delay_ms} ms cannot be simulated"
        )
    model = MODEL_OF[kind]
    knows_delay = model in (ThrottleModel.BACKLOG, ThrottleModel.TOKENS)
    throttled = worst = over = delayed = unfinished = 0
    if limit is not None and limit < demand.peak + CLEAR and demand.units.size:
        waits = waiting(model, demand, limit)
        least = -(-min_delay_ms * limit // 1000) if model is ThrottleModel.BACKLOG else 1
        throttled = int(demand.dt_ms[waits >= least].sum())
        if model is not ThrottleModel.APPROXIMATE:
            delayed = int(np.minimum(waits, demand.units).sum())
        if knows_delay:
            worst = delay_ms(int(waits.max()), limit)
            late = -(-(DELIVERY_TIMEOUT_MS + 1) * limit // 1000)
            over = int(demand.dt_ms[waits >= late].sum())
            # A backlog of any size outlives its session; a debt of tokens only if it means a delay of at least a millisecond.
            outlives = 1 if model is ThrottleModel.BACKLOG else -(-limit // 1000)
            unfinished = int((waits[demand.ends] >= outlives).sum())
    return Forecast(
        model=model,
        samples=demand.units.size,
        covered_ms=demand.covered_ms,
        arrived_units=demand.arrived_units,
        throttled_ms=throttled,
        max_delay_ms=worst if knows_delay else None,
        over_timeout_ms=over if knows_delay else None,
        delayed_units=delayed,
        unfinished=unfinished,
    )


def waiting(model: ThrottleModel, demand: Demand, limit: int) -> IntColumn:
    """Return the units that wait after each sample, were refused in it, or exceed the limit.

    - Backlog: B_i.
    - Tokens: U_i, by the same recursion, is the used part of the burst; use beyond the burst waits. The bucket starts full
      with :data:`BURST_WINDOWS` seconds of the limit; the broker queues nothing, but a client that obeys waits
      (TokenBucket, ControllerMutationQuotaManager).
    - Rejected: connections above the limit are closed, and nothing carries over (SocketServer.ConnectionQuotas removes a
      refused connection from the recorded rate).
    - Approximate: the delay is capped at one window, so only the time over the limit is meaningful
      (ClientRequestQuotaManager.throttleTime).
    """
    if model in (ThrottleModel.REJECTED, ThrottleModel.APPROXIMATE):
        by_rate = model is ThrottleModel.APPROXIMATE
        excess = (
            demand.rate_units - limit if by_rate else demand.units - limit * demand.dt_ms // 1000
        )
    else:
        burst = BURST_WINDOWS * limit if model is ThrottleModel.TOKENS else 0
        excess = backlogs(demand, limit) - burst
    positive: IntColumn = np.maximum(excess, 0)
    return positive


def backlogs(demand: Demand, limit: int) -> IntColumn:
    """Return B_i after each sample; zeros if the limit can throttle nothing.

    Raises:
        QuotaValueError: The limit allows more than :data:`MOST_UNITS`.
    """
    # With q >= r + 500 and dt >= 1, g = (q * dt) div 1000 >= (r * dt + 500) div 1000 = a: there is never a backlog.
    if limit >= demand.peak + CLEAR or not demand.units.size:
        return np.zeros_like(demand.units)
    _check_countable(limit * demand.covered_ms // 1000, limit, demand.covered_ms)
    net = demand.units - limit * demand.dt_ms // 1000
    first = net[demand.begins]
    net[demand.begins[1:]] -= demand.arrived_by_session[:-1]
    total = np.cumsum(net)
    floor = total.copy()
    floor[demand.begins] -= np.maximum(first, 0)
    backlog: IntColumn = total - np.minimum.accumulate(floor)
    return backlog


def served(demand: Demand, limit: int | None) -> IntColumn:
    """Return the units served in the time of each sample under a limit on bytes; all that arrived if unlimited. Errors as for :func:`backlogs`."""
    if limit is None:
        return demand.units
    after = backlogs(demand, limit)
    before = np.zeros_like(after)
    before[1:] = after[:-1]
    before[demand.begins] = 0
    return demand.units + before - after


def delay_ms(units: int, limit: int) -> int:
    """Return the delay of a backlog under a limit: ``1000 * units div limit``, at most :data:`LONGEST_MS`."""
    return min(LONGEST_MS, 1000 * units // limit)


class ThrottledSpan(NamedTuple):
    """A time without a break in which the broker recorded throttling: the largest delay and rate of its readings."""

    begin_ms: int
    end_ms: int
    delay_ms: int
    rate_units: int


def throttled_spans(series: SampleSeries, max_gap_ms: int) -> tuple[ThrottledSpan, ...]:
    """Return the spans of a series, in time order. A gap above ``max_gap_ms`` ends a span."""
    readings = np.flatnonzero(series.throttle_ms > 0)
    if not readings.size:
        return ()
    is_break = (np.diff(readings) > 1) | (np.diff(series.ts_ms[readings]) > max_gap_ms)
    runs = np.split(readings, np.flatnonzero(is_break) + 1)
    return tuple(
        ThrottledSpan(
            begin_ms=int(series.ts_ms[run[0]] - series.dt_ms[run[0]]),
            end_ms=int(series.ts_ms[run[-1]]),
            delay_ms=int(series.throttle_ms[run].max()),
            rate_units=int(series.rate_units[run].max()),
        )
        for run in runs
    )


def chart_points(
    series: SampleSeries, from_ms: int, length_ms: int
) -> tuple[tuple[tuple[int, int, int], ...], tuple[int, ...]]:
    """Return ``(begin, mean rate, largest rate)`` of each point of a chart, and the begins of points with throttling.

    Args:
        series: At least one reading, none before ``from_ms``.
        from_ms: Begin of the first point.
        length_ms: Length of a point. A reading belongs to the point in which it was taken.
    """
    numbers = (series.ts_ms - from_ms) // length_ms
    firsts = np.flatnonzero(np.diff(numbers, prepend=-1))
    begins = (from_ms + numbers[firsts] * length_ms).tolist()
    # As doubles: the units of a long point can exceed 64 bits.
    units = np.add.reduceat(series.rate_units * series.dt_ms.astype(np.float64), firsts)
    means = np.rint(units / np.add.reduceat(series.dt_ms, firsts)).astype(np.int64).tolist()
    largest = np.maximum.reduceat(series.rate_units, firsts).tolist()
    throttled = np.maximum.reduceat(series.throttle_ms, firsts) > 0
    points = tuple(zip(begins, means, largest, strict=True))
    return points, tuple(begin for begin, marked in zip(begins, throttled, strict=True) if marked)
