"""Generated evidence for both engines: series with all irregularities that the engines could treat differently.

A case is a separate cluster (its number is the cluster id), so that one job processes all cases.
"""

import datetime as dt
import random
from collections.abc import Iterable, Iterator, Sequence

from reconciler.usage.samples import DAY_MS, MAX_UNITS, Censored, QuotaType
from reconciler.usage.tags import Bucket
from tests.usage.reference import Sample

BEGIN = 1_760_000_000_000
"""The start of cases, which is not a full day or second."""

STEPS = (10_000, 15_000, 30_000, 60_000)

SAMPLE_SCHEMA = (
    "cluster_id string, quota_type string, group_kind string, user string, client_id string, ip string,"
    " broker_id string, ts_ms bigint, dt_ms int, rate_units bigint, throttle_ms bigint, censored string, day date"
)

SampleRow = tuple[object, ...]


def day_of(ts_ms: int) -> dt.date:
    return dt.date(1970, 1, 1) + dt.timedelta(days=ts_ms // DAY_MS)


def sample_rows(
    cluster_id: str, kind: QuotaType, bucket: Bucket, broker: str, samples: Iterable[Sample]
) -> Iterator[SampleRow]:
    """Samples as rows of ``usage_sample``."""
    for sample in samples:
        yield (
            cluster_id,
            str(kind),
            str(bucket.kind),
            bucket.user,
            bucket.client_id,
            bucket.ip,
            broker,
            sample.ts_ms,
            sample.dt_ms,
            sample.rate_units,
            sample.throttle_ms,
            str(sample.censored),
            day_of(sample.ts_ms),
        )


def series(
    draw: random.Random,
    *,
    times: Sequence[tuple[int, int]],
    scale: int,
    censoring: Sequence[Censored] = tuple(Censored),
) -> tuple[Sample, ...]:
    """One series at these times: around a level, with peaks, gaps, throttling and occasional capped rates."""
    samples: list[Sample] = []
    level = draw.randrange(1, max(2, scale))
    for ts, span in times:
        if draw.random() < 0.02:
            continue
        match draw.randrange(20):
            case 0:
                rate = 0
            case 1 | 2:
                rate = level * draw.randrange(2, 9)
            case 3:
                rate = scale
            case _:
                rate = level * draw.randrange(50, 150) // 100
        throttle = draw.choice((None, 0, 0, draw.randrange(1, 5000)))
        samples.append(Sample(ts, span, min(MAX_UNITS, rate), throttle, draw.choice(censoring)))
    return tuple(samples)


def moments(
    draw: random.Random, *, count: int, step: int, max_gap: int, begin: int = BEGIN
) -> list[tuple[int, int]]:
    """Times with the duration of each: gaps at and just above the bound, short and irregular steps."""
    times: list[tuple[int, int]] = []
    ts = begin + draw.randrange(DAY_MS)
    for _ in range(count):
        match draw.randrange(24):
            case 0:
                apart = max_gap
            case 1:
                apart = max_gap + 1
            case 2:
                apart = draw.randrange(1, 1000)
            case 3:
                apart = step + draw.choice((-500, 500, 1, -1))
            case 4:
                apart = 20 * max_gap
            case _:
                apart = step
        ts += apart
        times.append((ts, step if apart > max_gap else apart))
    return times
