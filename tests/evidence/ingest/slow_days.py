"""Samples of a day, computed value by value with the functions of the core: the expected columns of the assembly.

For brokers with one instance and one replica that never fail; other cases have separate tests.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from reconciler.evidence.ingest.limit_history import (
    LimitHistory,
    UnknownLimit,
)
from reconciler.evidence.store.snapshot_import import LimitSnapshot
from reconciler.usage.samples import Cadence, Censored, QuotaType, thinned
from reconciler.usage.tags import Bucket, bucket_of
from tests.evidence.ingest.point_rows import Row
from tests.usage.reference import Sample, UntimedSample, censored, filled, rate_units, timed

Line = tuple[str, str, Bucket]


def samples(
    rows: Iterable[Row], looks: Sequence[LimitSnapshot], pace: Cadence
) -> Mapping[Line, tuple[Sample, ...]]:
    """Samples by broker, type and bucket; no request quotas."""
    up: dict[str, list[int]] = {}
    rates: dict[Line, dict[int, float]] = {}
    delays: dict[Line, dict[int, float]] = {}
    for instance, _, measure, kind, user, client_id, ip, ts, value in rows:
        broker = str(instance).removeprefix("b").partition(":")[0]
        if measure == "up":
            up.setdefault(broker, []).append(ts)
        if measure in {"rate", "throttle_ms"}:
            line = (broker, kind, bucket_of(user, client_id, ip))
            (rates if measure == "rate" else delays).setdefault(line, {})[ts] = value
    limits = LimitHistory(looks)
    samples_by_line = {}
    for line in rates.keys() | delays.keys():
        times = thinned(sorted(up[line[0]]))
        named = {ts for points in (rates, delays) for ts in points.get(line, {}) if ts in times}
        if not named:
            continue
        any_times = {
            ts
            for points in (rates, delays)
            for each_line, values in points.items()
            if each_line[:2] == line[:2]
            for ts in values
        }
        busy_times = {
            ts
            for each_line, values in rates.items()
            if each_line[:2] == line[:2]
            for ts, value in values.items()
            if value > 0
        }
        times_by_rule = {None: any_times, False: busy_times, True: set(times)}
        measured = [
            ts
            for ts in times
            if ts >= min(named)
            and ts in times_by_rule[limits.measured(limits.at(ts), QuotaType(line[1]))]
        ]
        readings = [
            reading
            for ts in sorted(named)
            if (reading := _reading(line, ts, rates, delays, limits)) is not None
        ]
        gaps = named - {reading.ts_ms for reading in readings}
        full_readings = filled(readings, [ts for ts in measured if ts not in gaps])
        samples_by_line[line] = timed(full_readings, pace)
    return {line: several for line, several in samples_by_line.items() if several}


def _reading(
    line: Line,
    ts: int,
    rates: Mapping[Line, Mapping[int, float]],
    delays: Mapping[Line, Mapping[int, float]],
    limits: LimitHistory,
) -> UntimedSample | None:
    kind = QuotaType(line[1])
    units = rate_units(kind, rates.get(line, {}).get(ts, float("nan")))
    if units is None:
        return None
    delay = delays.get(line, {}).get(ts)
    throttle = None if delay is None else 0 if math.isnan(delay) else round(delay)
    limit = limits.limit(limits.at(ts), kind, line[2])
    if limit is UnknownLimit.CHANGED:
        judged = Censored.UNKNOWN
    elif isinstance(limit, UnknownLimit):
        judged = Censored.NO if throttle == 0 else Censored.UNKNOWN
    else:
        judged = censored(
            kind, throttle_ms=throttle, rate_units=units, limit=limit, request_throttled=False
        )
    covering = limits.request(limits.at(ts), line[2])
    if isinstance(covering, UnknownLimit) and judged is Censored.NO:
        judged = Censored.UNKNOWN
    return UntimedSample(ts, units, throttle, judged)
