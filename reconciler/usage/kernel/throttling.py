"""What a limit does to recorded use: the backlog recursion, and the other three models, for a whole series at once.

For one bucket on one broker, samples in time order, q the limit in units (``div`` rounds down)::

    a_i = (r_i * dt_i + 500) div 1000               what arrived
    g_i = (q * dt_i) div 1000                       what the limit lets pass
    B_i = max(0, B_(i-1) + a_i - g_i)               the backlog; 0 before each session
    served_i  = a_i + B_(i-1) - B_i                 delayed_i = min(B_i, a_i)
    delay_i   = (B_i div q) * 1000 + ((B_i mod q) * 1000) div q                     milliseconds
    throttled = 1000 * B_i >= q * min_delay         which is delay_i >= min_delay

The recursion with a floor of zero is the distance of the running sum S = sum(a - g) from its lowest value so far. A session
begins with an empty backlog; for that, S falls by all that arrived in the session before, which is at least its backlog.

A consumer that is held back gets less than its limit (:mod:`reconciler.usage.fetches`). It is not held back before its
rate is above the limit. So there the recursion begins with a sample of which more arrives than the limit lets pass, uses
what the consumer gets in place of q, and ends with the backlog.

Source: Kafka delays by X = (O - T) / T * W and never caps it for bytes (ClientQuotaManager.throttleTime), so in the
long run a client gets its limit and waits for the rest. Credit for a burst is left out on purpose: with it, this
model was worse in every comparison with the sampled windows of a broker (tests/usage/test_stepper.py).
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from reconciler.errors import QuotaValueError
from reconciler.usage.kernel.series import IntColumn, SampleSeries
from reconciler.usage.samples import MAX_UNITS, QuotaType
from reconciler.usage.throttle_models import (
    BURST_WINDOWS,
    DELIVERY_TIMEOUT_MS,
    LONGEST_MS,
    MIN_DELAY_MS,
    MODEL_OF,
    Forecast,
    ThrottleModel,
)

MOST_UNITS: Final = 2**62
"""So much a limit may let pass, and so much may arrive, in one series: 53 days at 1 TB/s. Sums of it fit 64 bits."""

CLEAR: Final = 500
"""A limit so far above the peak lets every sample pass, however short: rounding half up adds less than a unit of 2 ms."""


FIRST_LOOK: Final = 64
"""So many samples are searched at first for the end of a backlog, then twice as many, and so on."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Demand:
    """A series ready for any limit: what can be worked out without one is worked out once.

    Attributes:
        peak: The largest rate; 0 of no sample.
    """

    dt_ms: IntColumn
    rate_units: IntColumn
    units: IntColumn
    begins: IntColumn
    arrived_by_session: IntColumn
    peak: int

    @property
    def covered_ms(self) -> int:
        """The time that the samples stand for."""
        return int(self.dt_ms.sum())

    @property
    def arrived_units(self) -> int:
        """What arrived in all."""
        return int(self.arrived_by_session.sum())

    @property
    def ends(self) -> IntColumn:
        """The places at which sessions end."""
        return np.append(self.begins[1:], self.units.size) - 1


def demand_of(series: SampleSeries, max_gap_ms: int) -> Demand:
    """A series, ready for any limit. A gap above ``max_gap_ms`` begins a session.

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
    """Nothing, if 64 bits hold an amount and sums of it."""
    if amount >= MOST_UNITS:
        raise QuotaValueError(
            f"{rate:,} units per second over {covered_ms:,} ms cannot be counted: no broker moves so much",
            hint="look for samples with impossible rates, and ingest those days again without them",
        )


def simulate(
    kind: QuotaType,
    demand: Demand,
    limit: int | None,
    min_delay_ms: int = MIN_DELAY_MS,
    obtained: int | None = None,
) -> Forecast:
    """What a limit does to one bucket on one broker.

    Args:
        kind: What was measured.
        demand: Of one bucket on one broker.
        limit: In units, at least 1 and below :data:`~reconciler.usage.samples.MAX_UNITS`; ``None`` = unlimited.
        min_delay_ms: A shorter delay is no throttling; at least 1; only the backlog has a use for it.
        obtained: What clients get while they are held back, from 1 to the limit; ``None`` = the limit. For backlogs.

    Raises:
        QuotaValueError: The limit or the delay is out of its range, or the limit lets pass more than :data:`MOST_UNITS`.
    """
    if (limit is not None and not 0 < limit < MAX_UNITS) or min_delay_ms < 1:
        raise QuotaValueError(
            f"a limit of {limit} units and a delay of {min_delay_ms} ms cannot be simulated"
        )
    model = MODEL_OF[kind]
    knows_delay = model in (ThrottleModel.BACKLOG, ThrottleModel.TOKENS)
    drained = limit if obtained is None or model is not ThrottleModel.BACKLOG else obtained
    throttled = worst = over = delayed = unfinished = 0
    if limit is not None and drained and limit < demand.peak + CLEAR and demand.units.size:
        waits = waiting(model, demand, limit, drained)
        least = -(-min_delay_ms * drained // 1000) if model is ThrottleModel.BACKLOG else 1
        throttled = int(demand.dt_ms[waits >= least].sum())
        if model is not ThrottleModel.APPROXIMATE:
            delayed = int(np.minimum(waits, demand.units).sum())
        if knows_delay:
            worst = delay_ms(int(waits.max()), drained)
            late = -(-(DELIVERY_TIMEOUT_MS + 1) * drained // 1000)
            over = int(demand.dt_ms[waits >= late].sum())
            # A backlog of any size outlives its session; a debt of tokens only if it is a delay, of a millisecond at least.
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


def waiting(
    model: ThrottleModel, demand: Demand, limit: int, obtained: int | None = None
) -> IntColumn:
    """What has to wait after each sample, was refused in it, or is over the limit.

    - Backlog: B_i; of clients that get less than the limit while they are held back, :func:`held_backlogs`.
    - Tokens: U_i, the same recursion, is how much of the burst is used; what is beyond the burst waits. The bucket
      starts full and holds :data:`BURST_WINDOWS` seconds of the limit; nothing is queued by the broker, but a client that obeys
      waits (TokenBucket, ControllerMutationQuotaManager).
    - Rejected: what exceeds the limit is closed and forgotten; nothing carries over (SocketServer.ConnectionQuotas takes a
      refused connection off the record).
    - Approximate: the delay is capped at one window, so only the time over the limit means anything
      (ClientRequestQuotaManager.throttleTime).
    """
    if model in (ThrottleModel.REJECTED, ThrottleModel.APPROXIMATE):
        by_rate = model is ThrottleModel.APPROXIMATE
        excess = (
            demand.rate_units - limit if by_rate else demand.units - limit * demand.dt_ms // 1000
        )
    else:
        if obtained is not None and obtained < limit:
            return held_backlogs(demand, limit, obtained)
        burst = BURST_WINDOWS * limit if model is ThrottleModel.TOKENS else 0
        excess = backlogs(demand, limit) - burst
    positive: IntColumn = np.maximum(excess, 0)
    return positive


def backlogs(demand: Demand, limit: int) -> IntColumn:
    """B_i after each sample. Where nothing can be throttled, 0 without arithmetic.

    Raises:
        QuotaValueError: The limit lets pass more than :data:`MOST_UNITS`.
    """
    # With q >= r + 500 and dt >= 1, g = (q * dt) div 1000 >= (r * dt + 500) div 1000 = a: nothing ever waits.
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


def held_backlogs(demand: Demand, limit: int, obtained: int) -> IntColumn:
    """B_i of clients that get ``obtained`` units while they are held back, and are held back only once they are over the limit.

    Raises:
        QuotaValueError: The limit lets pass more than :data:`MOST_UNITS`.
    """
    backlog = np.zeros_like(demand.units)
    if not backlogs(demand, limit).any():
        return backlog
    over = np.flatnonzero(demand.units > limit * demand.dt_ms // 1000)
    total = np.cumsum(demand.units - obtained * demand.dt_ms // 1000)
    session_ends = demand.ends + 1
    at = 0
    while (place := int(np.searchsorted(over, at))) < over.size:
        at = int(over[place])
        before = int(total[at - 1]) if at else 0
        end = int(session_ends[np.searchsorted(session_ends, at, side="right")])
        length = FIRST_LOOK
        while at < end:
            waits = total[at : min(at + length, end)] - before
            drained = np.flatnonzero(waits <= 0)
            if drained.size:
                backlog[at : at + drained[0]] = waits[: drained[0]]
                at += int(drained[0])
                break
            backlog[at : at + waits.size] = waits
            at, length = at + waits.size, 2 * length
    return backlog


def served(demand: Demand, limit: int | None) -> IntColumn:
    """What passed in the time of each sample under a limit on bytes; all that arrived under none. Errors as :func:`backlogs`."""
    if limit is None:
        return demand.units
    after = backlogs(demand, limit)
    before = np.zeros_like(after)
    before[1:] = after[:-1]
    before[demand.begins] = 0
    return demand.units + before - after


def delay_ms(units: int, limit: int) -> int:
    """How long a backlog waits under a limit: ``1000 * units div limit``, at most :data:`LONGEST_MS`."""
    return min(LONGEST_MS, 1000 * units // limit)
