"""Makes the report on one client from its series and limits.

A report has no name of another client: it is made of the series whose names are all the client's own, and of the limits
that can apply to these series.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from reconciler.quota.entity import Entity, canonical_text, level
from reconciler.quota.state import QuotaState
from reconciler.usage.clients import WINDOW_SECONDS
from reconciler.usage.impact.result_rows import EvidenceNote
from reconciler.usage.kernel.series import SampleSeries
from reconciler.usage.kernel.throttling import chart_points, throttled_spans
from reconciler.usage.recommendation.limit_sizes import SizingCase, Tier, priced
from reconciler.usage.recommendation.sizing import trial
from reconciler.usage.recommendation.trial import ThrottlePromise
from reconciler.usage.reports.client import ClientLimitRow, ClientReport, ThrottledRow
from reconciler.usage.reports.usage import UsageCurve
from reconciler.usage.samples import (
    KEY_OF,
    MILLION,
    MODEL_OF,
    Cadence,
    QuotaType,
    ThrottleModel,
    ValueState,
    limit_state,
    limit_units,
)
from reconciler.usage.tags import Bucket, GroupKind, book, limit_of

MOST_POINTS: Final = 400
"""Maximum number of points of a chart; a picture cannot show more."""

_NEVER: Final = ThrottlePromise(share_ppm=0)

ClientSeries = Mapping[QuotaType, Mapping[Bucket, Mapping[str, SampleSeries]]]
"""Series by quota type, bucket and broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientEvidence:
    """What was recorded of a client in a window; series and limits of other clients are ignored."""

    note: EvidenceNote
    cadence: Cadence
    series: ClientSeries = field(repr=False)
    # Quota snapshots in time order, each with its time: first the one in force at the begin of the window, last the first
    # one after the window.
    limits: Sequence[tuple[int, QuotaState]] = field(default=(), repr=False)
    at_ms: int | None = None  # the time in question
    silent_brokers: tuple[str, ...] = ()  # brokers of the window that did not answer then


class ClientNames(NamedTuple):
    """The names that select what was recorded of a client; ``None`` selects only what was recorded without the name."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None


def is_own(client: ClientNames, bucket: Bucket) -> bool:
    """Whether all names of a bucket are names of the client."""
    names = (bucket.user, bucket.client_id, bucket.ip)
    return bucket.kind is not GroupKind.NONE and all(
        name in {"", client_name} for name, client_name in zip(names, client, strict=True)
    )


def client_report(
    client: ClientNames,
    evidence: ClientEvidence,
    tier_of: Callable[[Bucket], Tier],
    *,
    max_rows: int = 50,
) -> ClientReport:
    """Return the report on a client, without patches.

    Args:
        client: The names of the client; buckets with another name are ignored.
        tier_of: The tier of a bucket, which has the margin of a proposal.
        max_rows: Maximum number of rows of ``throttled``.

    Raises:
        QuotaValueError: Rates are out of range.
    """
    throttled: list[ThrottledRow] = []
    limits: list[ClientLimitRow] = []
    curves: list[UsageCurve] = []
    for recorded in _own_series(client, evidence.series):
        rows = list(_throttled_rows(evidence, recorded))
        throttled += rows
        limit_row = _limit_row(evidence, recorded, rows, tier_of(recorded.bucket))
        limits.append(limit_row)
        curves += [
            _curve(evidence, limit_row, broker_id, series)
            for broker_id, series in recorded.brokers.items()
        ]
    throttled.sort(key=lambda row: (row.distance_ms(evidence.at_ms), -row.delay_ms, row.begin_ms))
    return ClientReport(
        user=client.user or "",
        client_id=client.client_id or "",
        ip=client.ip or "",
        evidence=evidence.note,
        at_ms=evidence.at_ms,
        silent_brokers=evidence.silent_brokers,
        throttled=tuple(throttled[:max_rows]),
        limits=tuple(limits),
        curves=tuple(sorted(curves, key=lambda curve: -len(curve.throttled))),
        left_out=max(0, len(throttled) - max_rows),
    )


class _RecordedBucket(NamedTuple):
    kind: QuotaType
    bucket: Bucket
    brokers: Mapping[str, SampleSeries]


def _own_series(client: ClientNames, series: ClientSeries) -> Iterator[_RecordedBucket]:
    for kind, buckets in sorted(series.items()):
        for bucket in sorted(bucket for bucket in buckets if is_own(client, bucket)):
            brokers = {broker: samples for broker, samples in buckets[bucket].items() if samples}
            if brokers:
                yield _RecordedBucket(kind, bucket, dict(sorted(brokers.items())))


def _throttled_rows(evidence: ClientEvidence, recorded: _RecordedBucket) -> Iterator[ThrottledRow]:
    kind, bucket, brokers = recorded
    for broker_id, series in brokers.items():
        for span in throttled_spans(series, evidence.cadence.max_gap_ms):
            subject, units = _limit_of(evidence, kind, bucket, span.begin_ms, span.end_ms)
            before_ms = _last_snapshot(evidence, span.end_ms) if subject is None else None
            later_ms = min((at for at, _ in evidence.limits if at > span.end_ms), default=None)
            if before_ms is not None and later_ms is not None:  # it was set between the two
                subject, units = _limit_of(evidence, kind, bucket, later_ms, later_ms)
            yield ThrottledRow(
                quota_type=kind,
                bucket=bucket,
                broker_id=broker_id,
                begin_ms=span.begin_ms,
                end_ms=span.end_ms,
                limit_units=units,
                source_entity=canonical_text(subject),
                level=None if subject is None else level(subject),
                delay_ms=span.delay_ms,
                rate_units=span.rate_units,
                least_units=least_limit(kind, units, span.delay_ms),
                snapshot_ms=before_ms,
            )


def _last_snapshot(evidence: ClientEvidence, end_ms: int) -> int | None:
    return max((at_ms for at_ms, _ in evidence.limits if at_ms <= end_ms), default=None)


def least_limit(kind: QuotaType, limit: int | None, delay_ms: int) -> int | None:
    """Return a limit below which requests that were delayed would have been delayed too; ``None`` without a limit.

    A broker delays a request of produce or fetch by (O - T) / T of the window of the rate O (ClientQuotaManager), so O is
    known from the delay and the limit T. The window is at most :data:`~reconciler.usage.clients.WINDOW_SECONDS`. Delays of
    the other types have a maximum, or follow from tokens: there the limit was too small, and no more is known.
    """
    if limit is None:
        return None
    excess = (
        limit * delay_ms // (1000 * WINDOW_SECONDS)
        if MODEL_OF[kind] is ThrottleModel.BACKLOG
        else 0
    )
    return limit + max(1, excess)


def _limit_of(
    evidence: ClientEvidence, kind: QuotaType, bucket: Bucket, begin_ms: int, end_ms: int
) -> tuple[Entity | None, int | None]:
    """Return the entity and the value of the lowest limit of a bucket that was in force within a time.

    The snapshots of a time are those taken in it and the one before; without one before, the first of all. If a limit is
    raised because it throttles, the records of the delay last longer than the limit.
    """
    begins = [number for number, (at_ms, _) in enumerate(evidence.limits) if at_ms <= begin_ms]
    first = begins[-1] if begins else 0
    states = [
        state
        for number, (at_ms, state) in enumerate(evidence.limits)
        if number == first or (number > first and at_ms <= end_ms)
    ]
    effective = [
        limit
        for state in states
        if (limit := limit_of(book(state, KEY_OF[kind]), bucket)) is not None
        and limit_state(kind, limit[1]) is not ValueState.INVALID
    ]
    subject, value = min(effective, key=lambda limit: limit[1], default=(None, None))
    return subject, None if value is None else limit_units(kind, value)


def _limit_row(
    evidence: ClientEvidence,
    recorded: _RecordedBucket,
    throttled: Sequence[ThrottledRow],
    tier: Tier,
) -> ClientLimitRow:
    kind, bucket, brokers = recorded
    subject, units = _limit_of(evidence, kind, bucket, evidence.note.to_ms, evidence.note.to_ms)
    series = tuple(brokers.values())
    last = _last_snapshot(evidence, evidence.note.to_ms)
    is_known = bool(evidence.limits) and (
        units is not None
        or all(row.snapshot_ms is None or row.snapshot_ms != last for row in throttled)
    )
    worst = max(series, key=lambda broker_series: broker_series.throttled_ms or 0)
    least = target = None
    if throttled:
        gap_ms = evidence.cadence.max_gap_ms
        unthrottled = trial(
            kind, series, evidence.note.from_ms, evidence.note.to_ms, gap_ms
        ).smallest(_NEVER)
        least = max(unthrottled or 1, *(row.least_units or 0 for row in throttled))
        case = SizingCase(
            kind=kind, from_ms=evidence.note.from_ms, to_ms=evidence.note.to_ms, max_gap_ms=gap_ms
        )
        censored_ms = sum(broker_series.censored_ms for broker_series in series)
        covered_ms = sum(broker_series.covered_ms for broker_series in series)
        target, _ = priced(least, tier, case, censored_ms * MILLION // covered_ms)
        if is_known and (units is None or units >= target):
            target = None
    return ClientLimitRow(
        quota_type=kind,
        bucket=bucket,
        is_known=is_known,
        limit_units=units,
        source_entity=canonical_text(subject),
        level=None if subject is None else level(subject),
        brokers=len(series),
        peak_units=max(broker_series.peak for broker_series in series),
        covered_ms=worst.covered_ms,
        throttled_ms=worst.throttled_ms,
        least_units=least,
        target_units=target,
    )


def _curve(
    evidence: ClientEvidence, row: ClientLimitRow, broker_id: str, series: SampleSeries
) -> UsageCurve:
    step_ms = evidence.cadence.step_ms
    length_ms = (
        -(-(evidence.note.to_ms - evidence.note.from_ms) // MOST_POINTS // step_ms) * step_ms
    )
    points, throttled = chart_points(series, evidence.note.from_ms, max(step_ms, length_ms))
    return UsageCurve(
        cluster_id=evidence.note.cluster_id,
        quota_type=row.quota_type,
        bucket=row.bucket,
        broker_id=broker_id,
        points=points,
        span_ms=max(step_ms, length_ms),
        before_units=row.limit_units,
        after_units=row.target_units or row.limit_units,
        throttled=throttled,
    )
