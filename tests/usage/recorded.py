"""The kernel's queries for rows of samples, as tests write them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from reconciler.usage.clients import Clients
from reconciler.usage.impact import replay
from reconciler.usage.impact.bucket_mapping import Identifiability
from reconciler.usage.impact.query import ImpactQuery
from reconciler.usage.impact.result_rows import ImpactRow
from reconciler.usage.impact.verdict import BucketImpact
from reconciler.usage.kernel import throttling
from reconciler.usage.recommendation import limit_sizes, sizing
from reconciler.usage.recommendation.trial import LimitTrial
from reconciler.usage.samples import Cadence, QuotaType
from reconciler.usage.tags import Bucket
from reconciler.usage.throttle_models import MIN_DELAY_MS, Forecast
from tests.usage.reference import Sample, columns


@dataclass(frozen=True, kw_only=True)
class OldBucket:
    """An old bucket and its current limit."""

    samples: Sequence[Sample]
    limit: int | None
    clients: Clients | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SizingCase(limit_sizes.SizingCase):
    """A bucket to be sized, with its recorded use on each broker."""

    series: Mapping[str, Sequence[Sample]] = field(default_factory=dict)


def impact(
    kind: QuotaType,
    answer: Identifiability,
    parts: Sequence[OldBucket],
    limit: int | None,
    *,
    max_gap_ms: int,
    clients: Clients | None = None,
) -> BucketImpact:
    old = [
        replay.OldBucket(samples=columns(part.samples), limit=part.limit, clients=part.clients)
        for part in parts
    ]
    return replay.impact(kind, answer, old, limit, max_gap_ms=max_gap_ms, clients=clients)


def judged(
    question: ImpactQuery,
    series: Mapping[QuotaType, Mapping[Bucket, Mapping[str, Sequence[Sample]]]],
    cadence: Cadence,
) -> tuple[ImpactRow, ...]:
    by_type = {
        kind: {
            bucket: {broker: columns(samples) for broker, samples in brokers.items()}
            for bucket, brokers in buckets.items()
        }
        for kind, buckets in series.items()
    }
    return replay.judged(question, by_type, cadence.max_gap_ms)


def simulate(
    kind: QuotaType,
    samples: Sequence[Sample],
    limit: int | None,
    max_gap_ms: int,
    min_delay_ms: int = MIN_DELAY_MS,
) -> Forecast:
    demand = throttling.demand_of(columns(samples), max_gap_ms)
    return throttling.simulate(kind, demand, limit, min_delay_ms)


def recommend(case: SizingCase, tier: limit_sizes.Tier) -> limit_sizes.SizedLimit:
    return sizing.recommend(case, tier, map(columns, case.series.values()))


def trial(
    kind: QuotaType, series: Sequence[Sequence[Sample]], from_ms: int, to_ms: int, max_gap_ms: int
) -> LimitTrial:
    return sizing.trial(kind, [columns(samples) for samples in series], from_ms, to_ms, max_gap_ms)
