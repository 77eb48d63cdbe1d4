"""What a limit does to recorded use: the backlog recursion, and the other three models. The definition for every engine.

For one bucket on one broker, samples in time order, q the limit in units (``div`` rounds down)::

    a_i = (r_i * dt_i + 500) div 1000               what arrived
    g_i = (q * dt_i) div 1000                       what the limit lets pass
    B_i = max(0, B_(i-1) + a_i - g_i)               the backlog; 0 before each session
    served_i  = a_i + B_(i-1) - B_i                 delayed_i = min(B_i, a_i)
    delay_i   = (B_i div q) * 1000 + ((B_i mod q) * 1000) div q                     milliseconds
    throttled = 1000 * B_i >= q * min_delay         which is delay_i >= min_delay, and that form cannot overflow

Source: Kafka delays by X = (O - T) / T * W and never caps it for bytes (ClientQuotaManager.throttleTime), so in the
long run a client gets its limit and waits for the rest. Credit for a burst is left out on purpose: with it, this
model was worse in every comparison with the sampled windows of a broker (tests/usage/test_stepper.py).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from reconciler.errors import QuotaValueError
from reconciler.usage.samples import MAX_UNITS, MILLION, QuotaType, Sample

MIN_DELAY_MS: Final = 1_000
"""A shorter delay is no throttling; without this bound one byte over the limit would count for a whole day."""

DELIVERY_TIMEOUT_MS: Final = 120_000
"""``delivery.timeout.ms`` of the Java producer: records that wait longer are lost."""

BURST_WINDOWS: Final = 11
"""How many seconds of its limit the controller lets pass at once (controller.quota.window.num x size)."""


LONGEST_MS: Final = 1_000_000_000_000_000
"""Delays are cut to this, some 30,000 years: the backlog of a cut rate over a tiny limit would not fit 64 bits."""

MAX_TOTAL: Final = 2**63 - 1
"""Totals are cut to this, what a column of 64 bits holds: a cut rate reaches it after 10.6 days."""


class ThrottleModel(StrEnum):
    """How the broker treats what is over the limit."""

    BACKLOG = "backlog"  # delayed until it fits: produce and fetch
    TOKENS = "tokens"  # a token bucket: partition mutations, on the active controller
    REJECTED = "rejected"  # closed, not queued: connections of an address
    APPROXIMATE = (
        "approximate"  # delayed by 1 s at most: request time; says how long, not how badly
    )


MODEL_OF: Final[dict[QuotaType, ThrottleModel]] = {
    QuotaType.PRODUCE: ThrottleModel.BACKLOG,
    QuotaType.FETCH: ThrottleModel.BACKLOG,
    QuotaType.REQUEST: ThrottleModel.APPROXIMATE,
    QuotaType.CONTROLLER_MUTATION: ThrottleModel.TOKENS,
    QuotaType.IP: ThrottleModel.REJECTED,
}


class Arrival(NamedTuple):
    """A sample ready for any limit: what can be worked out without one is worked out once.

    Attributes:
        fresh: It begins a session.
        dt_ms: The time it stands for.
        units: What arrived in that time, a_i.
        rate_units: Per second.
    """

    fresh: bool
    dt_ms: int
    units: int
    rate_units: int


class ThrottledSample(NamedTuple):
    """What one sample meets under a limit; the columns that a second engine has to equal.

    Attributes:
        backlog: Units that wait at its end. Under :attr:`ThrottleModel.TOKENS`, how much of the burst is used.
        served: Units that passed in its time.
        delayed: Units of this sample that wait, or, under :attr:`ThrottleModel.REJECTED`, were refused.
        delay_ms: How long the last of them waits.
        throttled: Whether this counts as throttled time.
    """

    backlog: int
    served: int
    delayed: int
    delay_ms: int
    throttled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What a limit does to one bucket on one broker over all samples; sums of :class:`ThrottledSample`.

    Attributes:
        model: By which rule.
        samples: How many.
        covered_ms: The time that they stand for.
        arrived_units: What arrived.
        throttled_ms: Time throttled; where the model is approximate, time over the limit.
        max_delay_ms: The worst delay; ``None`` where the model knows none.
        over_timeout_ms: Time with a delay above :data:`DELIVERY_TIMEOUT_MS`; ``None`` as before.
        delayed_units: What had to wait; refused connections where those are closed.
        unfinished: Sessions that end with a backlog: the true figures are higher.
    """

    model: ThrottleModel
    samples: int
    covered_ms: int
    arrived_units: int
    throttled_ms: int
    max_delay_ms: int | None
    over_timeout_ms: int | None
    delayed_units: int
    unfinished: int

    @property
    def is_lower_bound(self) -> bool:
        """Whether a backlog outlives the evidence."""
        return self.unfinished > 0


def arrivals(samples: Sequence[Sample], max_gap_ms: int) -> tuple[Arrival, ...]:
    """The samples of one bucket on one broker, ready for any limit. A gap above ``max_gap_ms`` begins a session.

    Raises:
        QuotaValueError: The samples do not strictly ascend, or a rate or time is out of its range.
    """
    prepared_arrivals: list[Arrival] = []
    make_arrival = Arrival._make
    last: int | None = None
    for ts, dt, rate, _, _ in samples:
        if last is not None and ts <= last:
            raise QuotaValueError(f"samples must ascend: {ts} comes after {last}")
        if dt <= 0 or not 0 <= rate <= MAX_UNITS:
            raise QuotaValueError(f"the sample at {ts} has {rate} units over {dt} ms")
        fresh = last is None or ts - last > max_gap_ms
        prepared_arrivals.append(make_arrival((fresh, dt, (rate * dt + 500) // 1000, rate)))
        last = ts
    return tuple(prepared_arrivals)


def delay_ms(units: int, limit: int) -> int:
    """How long a backlog waits under a limit: ``1000 * units div limit``, in steps that fit 64 bits."""
    return min(LONGEST_MS, units // limit * 1000 + units % limit * 1000 // limit)


def backlog_rows(
    series: Sequence[Arrival], limit: int, min_delay_ms: int = MIN_DELAY_MS
) -> Iterator[ThrottledSample]:
    """The recursion, row by row."""
    backlog = 0
    for fresh, dt, units, _ in series:
        before = 0 if fresh else backlog
        backlog = max(0, before + units - limit * dt // 1000)
        wait = delay_ms(backlog, limit)
        yield ThrottledSample(
            backlog, units + before - backlog, min(backlog, units), wait, wait >= min_delay_ms
        )


def token_rows(series: Sequence[Arrival], limit: int) -> Iterator[ThrottledSample]:
    """Mutations: U_i = max(0, U_(i-1) + a_i - g_i) of the burst is used; throttled beyond all of it, by what is beyond.

    Source: TokenBucket and ControllerMutationQuotaManager: the bucket starts full, its depth is
    :data:`BURST_WINDOWS` seconds of the limit, the delay is the debt over the limit. Nothing is queued by the
    broker, but a client that obeys waits.
    """
    used = 0
    depth = BURST_WINDOWS * limit
    for fresh, dt, units, _ in series:
        before = 0 if fresh else used
        used = max(0, before + units - limit * dt // 1000)
        debt = max(0, used - depth)
        already = max(0, before - depth)
        yield ThrottledSample(
            used, units + already - debt, min(debt, units), delay_ms(debt, limit), debt > 0
        )


def rejected_rows(series: Sequence[Arrival], limit: int) -> Iterator[ThrottledSample]:
    """Connections: what exceeds the limit is closed and forgotten, max(0, a_i - g_i); nothing carries over.

    Source: SocketServer.ConnectionQuotas, which takes a refused connection off the record.
    """
    for _, dt, units, _ in series:
        rejected_units = max(0, units - limit * dt // 1000)
        yield ThrottledSample(0, units - rejected_units, rejected_units, 0, rejected_units > 0)


def over_limit_rows(series: Sequence[Arrival], limit: int) -> Iterator[ThrottledSample]:
    """Request time: the delay is capped at one window, so only the time over the limit means anything.

    Source: ClientRequestQuotaManager.throttleTime, min(delay, window size).
    """
    for _, _, units, rate in series:
        yield ThrottledSample(0, units, 0, 0, rate > limit)


def rows(
    kind: QuotaType,
    series: Sequence[Arrival],
    limit: int,
    min_delay_ms: int = MIN_DELAY_MS,
) -> Iterator[ThrottledSample]:
    """What each sample meets under a limit, by the model of its type.

    Args:
        kind: What was measured.
        series: Of one bucket on one broker.
        limit: In units, at least 1 and below :data:`~reconciler.usage.samples.MAX_UNITS`.
        min_delay_ms: At least 1; only the backlog has a use for it.

    Raises:
        QuotaValueError: The limit or the delay is out of its range.
    """
    if not 0 < limit < MAX_UNITS or min_delay_ms < 1:
        raise QuotaValueError(
            f"a limit of {limit} units and a delay of {min_delay_ms} ms cannot be simulated"
        )
    match MODEL_OF[kind]:
        case ThrottleModel.BACKLOG:
            return backlog_rows(series, limit, min_delay_ms)
        case ThrottleModel.TOKENS:
            return token_rows(series, limit)
        case ThrottleModel.REJECTED:
            return rejected_rows(series, limit)
        case ThrottleModel.APPROXIMATE:
            return over_limit_rows(series, limit)


def simulate(
    kind: QuotaType,
    series: Sequence[Arrival],
    limit: int | None,
    min_delay_ms: int = MIN_DELAY_MS,
) -> Forecast:
    """What a limit does to one bucket on one broker; ``None`` = unlimited. Errors as :func:`rows`."""
    model = MODEL_OF[kind]
    if limit is None:
        sums = _ForecastSums()
    elif model is ThrottleModel.BACKLOG and 0 < limit < MAX_UNITS and min_delay_ms > 0:
        sums = _backlog_sums(series, limit, min_delay_ms)
    else:
        sums = _row_sums(series, rows(kind, series, limit, min_delay_ms))
    knows_delay = model in (ThrottleModel.BACKLOG, ThrottleModel.TOKENS)
    return Forecast(
        model=model,
        samples=len(series),
        covered_ms=sum([arrival[1] for arrival in series]),
        arrived_units=min(MAX_TOTAL, sum([arrival[2] for arrival in series])),
        throttled_ms=sums.throttled_ms,
        max_delay_ms=sums.max_delay_ms if knows_delay else None,
        over_timeout_ms=sums.over_timeout_ms if knows_delay else None,
        delayed_units=min(MAX_TOTAL, sums.delayed_units),
        unfinished=sums.unfinished,
    )


class _ForecastSums(NamedTuple):
    throttled_ms: int = 0
    max_delay_ms: int = 0
    over_timeout_ms: int = 0
    delayed_units: int = 0
    unfinished: int = 0


def _row_sums(series: Sequence[Arrival], sample_rows: Iterator[ThrottledSample]) -> _ForecastSums:
    throttled = worst = over = delayed = unfinished = 0
    waiting = False
    for (fresh, dt, _, _), row in zip(series, sample_rows, strict=True):
        unfinished += fresh and waiting
        waiting = row.delay_ms > 0
        delayed += row.delayed
        throttled += dt if row.throttled else 0
        over += dt if row.delay_ms > DELIVERY_TIMEOUT_MS else 0
        worst = max(worst, row.delay_ms)
    return _ForecastSums(throttled, worst, over, delayed, unfinished + waiting)


def _backlog_sums(series: Sequence[Arrival], limit: int, min_delay_ms: int) -> _ForecastSums:
    """The sums of :func:`backlog_rows` in one tight loop: a preview folds 242,000 samples, sizing forty times as many.

    A delay is compared through the backlog (``delay >= d`` is ``1000 * B >= d * q``); the worst one is that of the
    largest backlog.
    """
    least = -(-min_delay_ms * limit // 1000)
    late = -(-(DELIVERY_TIMEOUT_MS + 1) * limit // 1000)
    backlog = worst = throttled = over = delayed = unfinished = 0
    for fresh, dt, units, _ in series:
        if fresh:
            unfinished += backlog > 0
            backlog = 0
        backlog += units - limit * dt // 1000
        if backlog <= 0:
            backlog = 0
            continue
        delayed += min(backlog, units)
        worst = max(worst, backlog)
        if backlog >= least:
            throttled += dt
        if backlog >= late:
            over += dt
    return _ForecastSums(
        throttled, delay_ms(worst, limit), over, delayed, unfinished + (backlog > 0)
    )


def share_ppm(part_ms: int, whole_ms: int) -> int:
    """A share in millionths, rounded up, so that a little is never nothing; 0 of no time at all is 0."""
    return -(-part_ms * MILLION // whole_ms) if whole_ms else 0
