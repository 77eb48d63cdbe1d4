"""Determines which samples are censored (record less than the clients demanded), column-wise.

A property test compares it with the same decision per sample (``censored`` of ``tests.usage.reference``).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from reconciler.evidence.ingest.broker_readings import BrokerBucket
from reconciler.evidence.ingest.drop_reasons import DropCounts, DropReason
from reconciler.evidence.ingest.limit_history import (
    Covering,
    LimitHistory,
    RequestQuotaCover,
    UnknownLimit,
    may_share,
)
from reconciler.evidence.ingest.sample_grid import SampleGrid
from reconciler.evidence.store.files import row_codes
from reconciler.usage.samples import Censored, QuotaType
from reconciler.usage.tags import Bucket

_UNLIMITED: Final = 0
_LIMITED: Final = 1
_UNSEEN: Final = 2
_CHANGED: Final = 3

_NEVER: Final = 0
_KEYED: Final = 1
_UNRECORDED: Final = 2

_UNDER_REQUEST: Final = frozenset(
    {QuotaType.PRODUCE.value, QuotaType.FETCH.value, QuotaType.CONTROLLER_MUTATION.value}
)
"""Quota types whose clients a request quota may also throttle."""


def censored(
    samples: SampleGrid, times: Sequence[int], limits: LimitHistory, tally: DropCounts
) -> pa.Array:
    """Return ``no``, ``yes`` or ``unknown`` for each sample; ``no`` for filled samples.

    The throttle time is a mean over a minute and decays slowly, so the rate must also be at least 90 % of the limit. If
    byte rate and request time are both too high, only the quota with the longer delay records it: a client throttled by
    its request quota has no throttle time here. A throttled consumer need not reach its limit, because a fetch that
    does not fit is answered empty and its bytes are subtracted: throttled far from the limit is unknown.

    Args:
        times: Milliseconds of all rows.
        limits: The limits over time.
        tally: Counts samples with uncertain limits.
    """
    spans = sorted({limits.at(ts) for ts in times})
    place = {span: number for number, span in enumerate(spans)}
    of_row = row_codes.integers([place[limits.at(ts)] for ts in times])
    case = row_codes.paired(samples.number, of_row.take(samples.rows), max(1, len(spans)))
    limit_states = [_limit(limits, span, track) for track in samples.tracks for span in spans]
    state = pa.array([limit_state for limit_state, _ in limit_states], pa.int8()).take(case)
    limit = row_codes.integers([units for _, units in limit_states]).take(case)
    near = pc.and_(
        pc.equal(state, _LIMITED),
        pc.greater_equal(pc.multiply(samples.units, 10), pc.multiply(limit, 9)),
    )
    throttle = samples.throttles
    throttled = row_codes.sure(pc.greater(throttle, 0))
    is_unrecorded = pc.is_null(throttle)
    # A throttled consumer need not reach its limit.
    fetch = pa.array([track.quota_type == QuotaType.FETCH for track in samples.tracks], pa.bool_())
    far = pc.and_(fetch.take(samples.number), pc.equal(state, _LIMITED))
    is_throttled, may_be_throttled = _RequestCensoring(samples, limits, spans, of_row).columns(case)
    changed, unseen = pc.equal(state, _CHANGED), pc.equal(state, _UNSEEN)
    yes = pc.or_(is_throttled, pc.and_(near, throttled))
    doubtful = pc.or_(near, unseen)
    lingers = pc.and_(doubtful, pc.or_(is_unrecorded, throttled))
    unknown = pc.or_(pc.or_(may_be_throttled, changed), pc.or_(pc.and_(far, throttled), lingers))
    read = samples.read
    tally.add(DropReason.QUOTA_CHANGED, row_codes.count(pc.and_(changed, read)))
    tally.add(DropReason.QUOTA_UNKNOWN, row_codes.count(pc.and_(unseen, read)))
    words = pa.array(
        [censored_state.value for censored_state in (Censored.NO, Censored.UNKNOWN, Censored.YES)]
    )
    rank = pc.if_else(yes, 2, pc.if_else(unknown, 1, 0))
    indices = pc.if_else(read, rank, 0).cast(pa.int8())
    return pa.DictionaryArray.from_arrays(indices, words)


def _limit(limits: LimitHistory, span: int, track: BrokerBucket) -> tuple[int, int]:
    match limits.limit(span, QuotaType(track.quota_type), track.bucket):
        case None:
            return _UNLIMITED, 0
        case UnknownLimit.UNSEEN:
            return _UNSEEN, 0
        case UnknownLimit.CHANGED:
            return _CHANGED, 0
        case int() as units:
            return _LIMITED, units


@dataclass(frozen=True, slots=True, kw_only=True)
class _RequestThrottling:
    """Rows at which a request bucket of a broker was throttled, and rows without a recorded throttle time."""

    bucket: Bucket
    throttled: pa.Int64Array
    unrecorded: pa.Int64Array


class _RequestCensoring:
    """Finds samples of clients that a request quota throttled at the same scrape on the same broker."""

    def __init__(
        self, samples: SampleGrid, limits: LimitHistory, spans: Sequence[int], of_row: pa.Int64Array
    ) -> None:
        self._samples, self._limits, self._spans = samples, limits, spans
        self._of_row = of_row
        self._throttling_by_broker = _request_throttling(samples)
        self._yes: list[pa.Array] = []
        self._maybe: list[pa.Array] = []

    def columns(self, case: pa.Int64Array) -> tuple[pa.Array, pa.Array]:
        """Return two columns: whether the request quota throttled the client, and whether that is unknown."""
        modes = [
            self._mode(number, track, at, span)
            for number, track in enumerate(self._samples.tracks)
            for at, span in enumerate(self._spans)
        ]
        is_unrecorded = pc.equal(pa.array(modes, pa.int8()).take(case), _UNRECORDED)
        if not self._yes and not self._maybe:
            return pa.repeat(pa.scalar(value=False), len(case)), is_unrecorded
        keys, empty = self._samples.keys(), row_codes.integers([])
        yes = pc.is_in(keys, value_set=pa.concat_arrays([empty, *self._yes]))
        maybe = pc.is_in(keys, value_set=pa.concat_arrays([empty, *self._maybe]))
        return yes, pc.or_(is_unrecorded, maybe)

    def _mode(self, number: int, track: BrokerBucket, at: int, span: int) -> int:
        if track.quota_type not in _UNDER_REQUEST:
            return _NEVER
        covering = self._limits.request(span, track.bucket)
        if covering is RequestQuotaCover.NONE:
            return _NEVER
        throttling_by_bucket = self._throttling_by_broker.get(track.broker)
        if throttling_by_bucket is None or isinstance(covering, UnknownLimit):
            return _UNRECORDED  # the throttling by request quotas was not recorded, or the request quota is unknown
        self._keyed(number, at, covering, throttling_by_bucket)
        return _KEYED

    def _keyed(
        self,
        number: int,
        at: int,
        covering: Covering,
        throttling_by_bucket: Mapping[Bucket, _RequestThrottling],
    ) -> None:
        if isinstance(covering, Bucket):
            throttling = throttling_by_bucket.get(covering)
            if throttling is not None:
                self._add(self._yes, number, at, [throttling.throttled])
                self._add(self._maybe, number, at, [throttling.unrecorded])
            return
        bucket = self._samples.tracks[number].bucket
        near = [
            throttling
            for throttling in throttling_by_bucket.values()
            if (len(throttling.throttled) or len(throttling.unrecorded))
            and may_share(throttling.bucket, bucket)
        ]
        self._add(
            self._maybe,
            number,
            at,
            [rows for throttling in near for rows in (throttling.throttled, throttling.unrecorded)],
        )

    def _add(self, to: list[pa.Array], number: int, at: int, rows: Iterable[pa.Int64Array]) -> None:
        nonempty_rows = [row_array for row_array in rows if len(row_array)]
        if not nonempty_rows:
            return
        distinct = pc.unique(pa.concat_arrays(nonempty_rows))
        if len(self._spans) > 1:
            distinct = distinct.filter(pc.equal(self._of_row.take(distinct), at))
        to.append(pc.add(distinct, number * self._samples.size))


def _request_throttling(samples: SampleGrid) -> dict[str, dict[Bucket, _RequestThrottling]]:
    """Return the request buckets of each broker that records throttle times of request quotas."""
    throttling_by_broker: dict[str, dict[Bucket, _RequestThrottling]] = {}
    of_request = [
        number
        for number, track in enumerate(samples.tracks)
        if track.quota_type == QuotaType.REQUEST
    ]
    if not of_request:
        return throttling_by_broker
    is_request = pc.is_in(samples.number, value_set=row_codes.integers(of_request))
    number, rows = samples.number.filter(is_request), samples.rows.filter(is_request)
    throttle, read = samples.throttles.filter(is_request), samples.read.filter(is_request)
    hot = _by_number(number, rows, row_codes.sure(pc.greater(throttle, 0)))
    unrecorded = _by_number(number, rows, pc.is_null(throttle))
    recorded = set(pc.unique(number.filter(pc.and_(read, pc.is_valid(throttle)))).to_pylist())
    brokers = {samples.tracks[track_number].broker for track_number in recorded}
    none = row_codes.integers([])
    for track_number in of_request:
        track = samples.tracks[track_number]
        if track.broker in brokers:
            throttling_by_broker.setdefault(track.broker, {})[track.bucket] = _RequestThrottling(
                bucket=track.bucket,
                throttled=hot.get(track_number, none),
                unrecorded=unrecorded.get(track_number, none),
            )
    return throttling_by_broker


def _by_number(number: pa.Array, rows: pa.Array, mask: pa.Array) -> dict[int, pa.Int64Array]:
    rows_by_number: dict[int, list[int]] = {}
    for key, row in zip(
        number.filter(mask).to_pylist(), rows.filter(mask).to_pylist(), strict=True
    ):
        rows_by_number.setdefault(key, []).append(row)
    return {key: row_codes.integers(row_numbers) for key, row_numbers in rows_by_number.items()}
