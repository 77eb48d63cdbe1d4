"""Which samples record less than their clients wanted, for whole columns of samples.

Column form of :func:`reconciler.usage.censoring.censored`; a law holds the two together.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from reconciler.telemetry import codes
from reconciler.telemetry.fates import Fate, Tally
from reconciler.telemetry.grid import Grid
from reconciler.telemetry.limits import Cover, Covering, Doubt, Limits, may_share
from reconciler.telemetry.readings import Track
from reconciler.usage.samples import Censored, QuotaType
from reconciler.usage.tags import Bucket

_UNLIMITED: Final = 0
_LIMITED: Final = 1
_UNSEEN: Final = 2
_CHANGED: Final = 3

_NEVER: Final = 0
_KEYED: Final = 1
_UNTOLD: Final = 2

_UNDER_REQUEST: Final = frozenset(
    {QuotaType.PRODUCE.value, QuotaType.FETCH.value, QuotaType.CONTROLLER_MUTATION.value}
)
"""Types whose clients a request quota may hold back, too."""


def censored(samples: Grid, times: Sequence[int], limits: Limits, tally: Tally) -> pa.Array:
    """``no``, ``yes`` or ``unknown`` for each sample.

    Args:
        samples: The samples.
        times: Milliseconds of all rows.
        limits: In force, as far as looks tell.
        tally: Where samples with limits in doubt are counted.
    """
    spans = sorted({limits.at(ts) for ts in times})
    place = {span: number for number, span in enumerate(spans)}
    of_row = codes.integers([place[limits.at(ts)] for ts in times])
    case = codes.paired(samples.number, of_row.take(samples.rows), max(1, len(spans)))
    told = [_limit(limits, span, one) for one in samples.tracks for span in spans]
    state = pa.array([one for one, _ in told], pa.int8()).take(case)
    limit = codes.integers([units for _, units in told]).take(case)
    near = pc.and_(
        pc.equal(state, _LIMITED),
        pc.greater_equal(pc.multiply(samples.units, 10), pc.multiply(limit, 9)),
    )
    throttle = samples.throttles
    throttled = codes.sure(pc.greater(throttle, 0))
    untold = pc.is_null(throttle)
    # A consumer that is held back need not come near its limit.
    fetch = pa.array([one.quota_type == QuotaType.FETCH for one in samples.tracks], pa.bool_())
    far = pc.and_(fetch.take(samples.number), pc.equal(state, _LIMITED))
    held, maybe = _Requests(samples, limits, spans, of_row).columns(case)
    changed, unseen = pc.equal(state, _CHANGED), pc.equal(state, _UNSEEN)
    yes = pc.or_(held, pc.and_(near, throttled))
    doubtful = pc.or_(near, unseen)
    lingers = pc.and_(doubtful, pc.or_(untold, throttled))
    unknown = pc.or_(pc.or_(maybe, changed), pc.or_(pc.and_(far, throttled), lingers))
    read = samples.read
    tally.add(Fate.QUOTA_CHANGED, codes.count(pc.and_(changed, read)))
    tally.add(Fate.QUOTA_UNKNOWN, codes.count(pc.and_(unseen, read)))
    words = pa.array([one.value for one in (Censored.NO, Censored.UNKNOWN, Censored.YES)])
    rank = pc.if_else(yes, 2, pc.if_else(unknown, 1, 0))
    indices = pc.if_else(read, rank, 0).cast(pa.int8())
    return pa.DictionaryArray.from_arrays(indices, words)


def _limit(limits: Limits, span: int, track: Track) -> tuple[int, int]:
    match limits.limit(span, QuotaType(track.quota_type), track.bucket):
        case None:
            return _UNLIMITED, 0
        case Doubt.UNSEEN:
            return _UNSEEN, 0
        case Doubt.CHANGED:
            return _CHANGED, 0
        case int() as units:
            return _LIMITED, units


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """When a request bucket of a broker was throttled, and when that was not recorded."""

    bucket: Bucket
    throttled: pa.Int64Array
    untold: pa.Int64Array


class _Requests:
    """Which samples are of clients that a request quota held back at that moment on that broker."""

    def __init__(
        self, samples: Grid, limits: Limits, spans: Sequence[int], of_row: pa.Int64Array
    ) -> None:
        self._samples, self._limits, self._spans = samples, limits, spans
        self._of_row = of_row
        self._held = _held(samples)
        self._yes: list[pa.Array] = []
        self._maybe: list[pa.Array] = []

    def columns(self, case: pa.Int64Array) -> tuple[pa.Array, pa.Array]:
        """Whether the request quota held them back, and whether that cannot be told."""
        modes = [
            self._mode(number, track, at, span)
            for number, track in enumerate(self._samples.tracks)
            for at, span in enumerate(self._spans)
        ]
        untold = pc.equal(pa.array(modes, pa.int8()).take(case), _UNTOLD)
        if not self._yes and not self._maybe:
            return pa.repeat(pa.scalar(value=False), len(case)), untold
        keys, empty = self._samples.keys(), codes.integers([])
        yes = pc.is_in(keys, value_set=pa.concat_arrays([empty, *self._yes]))
        maybe = pc.is_in(keys, value_set=pa.concat_arrays([empty, *self._maybe]))
        return yes, pc.or_(untold, maybe)

    def _mode(self, number: int, track: Track, at: int, span: int) -> int:
        if track.quota_type not in _UNDER_REQUEST:
            return _NEVER
        covering = self._limits.request(span, track.bucket)
        if covering is Cover.NONE:
            return _NEVER
        held = self._held.get(track.broker)
        if held is None or isinstance(covering, Doubt):
            return _UNTOLD  # it is not recorded, or not known, what request quotas did
        self._keyed(number, at, covering, held)
        return _KEYED

    def _keyed(
        self, number: int, at: int, covering: Covering, held: Mapping[Bucket, _Held]
    ) -> None:
        if isinstance(covering, Bucket):
            one = held.get(covering)
            if one is not None:
                self._add(self._yes, number, at, [one.throttled])
                self._add(self._maybe, number, at, [one.untold])
            return
        bucket = self._samples.tracks[number].bucket
        near = [
            one
            for one in held.values()
            if (len(one.throttled) or len(one.untold)) and may_share(one.bucket, bucket)
        ]
        self._add(
            self._maybe, number, at, [rows for one in near for rows in (one.throttled, one.untold)]
        )

    def _add(self, to: list[pa.Array], number: int, at: int, rows: Iterable[pa.Int64Array]) -> None:
        found = [one for one in rows if len(one)]
        if not found:
            return
        distinct = pc.unique(pa.concat_arrays(found))
        if len(self._spans) > 1:
            distinct = distinct.filter(pc.equal(self._of_row.take(distinct), at))
        to.append(pc.add(distinct, number * self._samples.size))


def _held(samples: Grid) -> dict[str, dict[Bucket, _Held]]:
    """The request buckets of each broker that records how request quotas throttle."""
    found: dict[str, dict[Bucket, _Held]] = {}
    of_request = [
        number for number, one in enumerate(samples.tracks) if one.quota_type == QuotaType.REQUEST
    ]
    if not of_request:
        return found
    wanted = pc.is_in(samples.number, value_set=codes.integers(of_request))
    number, rows = samples.number.filter(wanted), samples.rows.filter(wanted)
    throttle, read = samples.throttles.filter(wanted), samples.read.filter(wanted)
    hot = _by_number(number, rows, codes.sure(pc.greater(throttle, 0)))
    untold = _by_number(number, rows, pc.is_null(throttle))
    recorded = set(pc.unique(number.filter(pc.and_(read, pc.is_valid(throttle)))).to_pylist())
    brokers = {samples.tracks[one].broker for one in recorded}
    none = codes.integers([])
    for one in of_request:
        track = samples.tracks[one]
        if track.broker in brokers:
            found.setdefault(track.broker, {})[track.bucket] = _Held(
                bucket=track.bucket,
                throttled=hot.get(one, none),
                untold=untold.get(one, none),
            )
    return found


def _by_number(number: pa.Array, rows: pa.Array, mask: pa.Array) -> dict[int, pa.Int64Array]:
    found: dict[int, list[int]] = {}
    for one, row in zip(
        number.filter(mask).to_pylist(), rows.filter(mask).to_pylist(), strict=True
    ):
        found.setdefault(one, []).append(row)
    return {one: codes.integers(taken) for one, taken in found.items()}
