"""What a plan does to recorded use: one row for each bucket that changes on each broker, from the series it asked for."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from reconciler.usage.buckets import Answer
from reconciler.usage.censoring import Bound
from reconciler.usage.findings import ImpactRow
from reconciler.usage.question import Asked, Question
from reconciler.usage.samples import Cadence, QuotaType, Sample
from reconciler.usage.tags import Bucket
from reconciler.usage.throttle import MIN_DELAY_MS, MODEL_OF
from reconciler.usage.verdict import Impact, Part, Verdict, impact

NO_SAMPLES: Final = "no sample of it lies in the window"


def judged(
    question: Question,
    series: Mapping[QuotaType, Mapping[Bucket, Mapping[str, Sequence[Sample]]]],
    cadence: Cadence,
    min_delay_ms: int = MIN_DELAY_MS,
) -> tuple[ImpactRow, ...]:
    """One row for each bucket that changes on each broker, in the order of the question.

    Args:
        question: What is asked.
        series: The samples of each broker in time order, of every bucket that :attr:`Question.reads` lists.
        cadence: How often they were read; a longer gap begins a session.
        min_delay_ms: A shorter delay is no throttling.

    Raises:
        QuotaValueError: Samples out of order or out of range.
    """
    found: list[ImpactRow] = []
    for one in question.asked:
        of_type = series.get(one.quota_type, {})
        sources = [
            Part(samples=of_type.get(part.bucket, {}).get(one.broker_id, ()), limit=part.limit)
            for part in one.parts
        ]
        told = impact(
            one.quota_type,
            one.answer,
            sources,
            one.after_units,
            max_gap_ms=cadence.max_gap_ms,
            min_delay_ms=min_delay_ms,
        )
        found.append(row_of(question.cluster_id, one, told))
    return tuple(found)


def row_of(cluster_id: str, one: Asked, told: Impact) -> ImpactRow:
    """What was asked with what came of it; what cannot be identified stays that, seen or not."""
    if one.answer is Answer.NOT_IDENTIFIABLE:
        told = replace(told, verdict=Verdict.NOT_IDENTIFIABLE, bound=Bound.EXACT)
    before, after = told.before, told.after
    unseen = told.verdict is Verdict.NO_DATA and one.answer is not Answer.NO_DATA
    return ImpactRow(
        cluster_id=cluster_id,
        quota_type=one.quota_type,
        bucket=one.bucket,
        any_name=one.any_name,
        broker_id=one.broker_id,
        before_units=one.before_units,
        after_units=one.after_units,
        source_entity=one.source_entity,
        answer=one.answer,
        verdict=told.verdict,
        bound=told.bound,
        model=MODEL_OF[one.quota_type],
        before_throttled_ms=before.throttled_ms if before and not unseen else None,
        before_max_delay_ms=before.max_delay_ms if before and not unseen else None,
        observed_throttled_ms=None if unseen else told.observed_throttled_ms,
        after_throttled_ms=after.throttled_ms if after else None,
        after_max_delay_ms=after.max_delay_ms if after else None,
        after_over_timeout_ms=after.over_timeout_ms if after else None,
        delayed_units=after.delayed_units if after else None,
        unfinished=after.unfinished if after else None,
        covered_ms=told.covered_ms,
        censored_ms=told.censored_ms,
        why=NO_SAMPLES if unseen else one.why,
    )
