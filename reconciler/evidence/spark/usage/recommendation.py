"""Right-sizing of every bucket at once: samples and cases in, rows of ``recommendation`` out.

Limits are tried natively: 25 candidates of the first round as columns of one window pass, up to 30 of the second in
another, the final limit in a third. Spans (all before the held-out week, each week of that, the held-out one) are
series of their own beside each other. Which candidates come second, and what rules make of the answer, is asked of the
core (``usage.sizing``) over aggregated rows: one per bucket.
"""

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, IntegerType, LongType, StringType, StructField, StructType

from reconciler.evidence.spark.tables.schemas import conforming, struct
from reconciler.evidence.spark.usage import integer_columns, throttle_windows
from reconciler.evidence.spark.usage.impact_query import BUCKET
from reconciler.usage.recommendation.candidate_limits import FINE, first_round
from reconciler.usage.recommendation.limit_sizes import (
    WEEK_MS,
    Advice,
    BucketObservation,
    Recommendation,
    SizingCase,
    Tier,
    evidence_of,
    promises,
    proven,
    sized,
    week_spans,
)
from reconciler.usage.recommendation.trial import LimitTrial
from reconciler.usage.samples import MAX_UNITS, Censored, QuotaType
from reconciler.usage.tables import RECOMMENDATION
from reconciler.usage.throttle_models import MODEL_OF, Forecast

TRAIN, TEST, WEEKS = 0, -1, 1
"""Spans: before the held-out week, that week, and from 1 on the weeks of the first, the latest first."""

_OWNER: Final = ("cluster_id", "quota_type", "n")
_SERIES: Final = (*_OWNER, "span", "broker_id")
_SECOND: Final = 3 * FINE

CASES: Final = StructType(
    [
        StructField("cluster_id", StringType()),
        StructField("quota_type", StringType()),
        StructField("n", IntegerType()),
        *(StructField(name, StringType()) for name in BUCKET),
        StructField("source_entity", StringType()),
        StructField("tier", StringType()),
        StructField("current_units", LongType()),
        StructField("budget_units", LongType()),
        StructField("marks", ArrayType(StringType())),
        StructField("max_gap_ms", LongType()),
    ]
)
"""One bucket to be sized; ``n`` is unique within a cluster, ``marks`` holds :data:`PINNED` and :data:`BUMPED`."""

PINNED, BUMPED = "pinned", "bumped"


@dataclass(frozen=True, slots=True, kw_only=True)
class SizingParameters:
    """What is the same for all cases.

    Attributes:
        from_ms: Begin of the evidence window.
        to_ms: Its end, not included; the last week before it is held out.
        tiers: By the names that cases give; one per name and type where bounds differ: ``name`` or ``name:type``.
        wide: Whether sums are to have 38 digits.
    """

    from_ms: int
    to_ms: int
    tiers: Mapping[str, Tier]
    wide: bool = False

    @property
    def split(self) -> int:
        """Where the held-out week begins."""
        return self.to_ms - WEEK_MS

    @property
    def spans(self) -> int:
        """How many spans of time limits are tried in: before the held-out week, that week, and each week before it."""
        return 2 + max(0, -(-(self.split - self.from_ms) // WEEK_MS))

    @property
    def day(self) -> dt.date:
        """The last day of the window, by which results are kept."""
        return dt.datetime.fromtimestamp((self.to_ms - 1) / 1000, dt.UTC).date()

    def tier(self, name: str, kind: QuotaType) -> Tier:
        """The tier of a name, with the bounds of a type."""
        return self.tiers.get(f"{name}:{kind}") or self.tiers[name]


Keep = Callable[[DataFrame], DataFrame]
"""Holds on to a bounded frame that several steps read; the job lets go of it."""


def recommendations(
    samples: DataFrame,
    cases: DataFrame,
    sizing: SizingParameters,
    *,
    keep: Keep = DataFrame.persist,
    broadcast: bool = True,
) -> DataFrame:
    """A limit for each case with its evidence: equal to ``usage.sizing.recommend``.

    Args:
        samples: Rows of ``usage_sample``; what lies outside the window is not looked at.
        cases: Rows of :data:`CASES`; kept, for they are read several times.
        sizing: Window and tiers.
        keep: Holds on to what was found per bucket, broker and span, so that no round is done twice.
        broadcast: Whether the cases fit every executor; else samples are shuffled once more.
    """
    read = _read(samples, cases, sizing, broadcast=broadcast)
    observations = keep(_observations(read))
    cases_with_observations = cases.join(_gathered(observations, "seen"), list(_OWNER), "left")
    peaks = (
        observations.groupBy(*_OWNER, "span").agg(fn.max("peak").alias("peak")).where("peak > 0")
    )
    peak = fn.col("peak")
    first = keep(_tried(read, peaks, [*integer_columns.coarse(peak), peak + 1], sizing, broadcast))
    begun = keep(cases_with_observations.join(_gathered(first, "first"), list(_OWNER), "left"))
    remaining_limits = keep(begun.mapInArrow(_by_row(_second, sizing, _LEFT), _LEFT))
    limits = [fn.get("limits", fn.lit(at)) for at in range(_SECOND)]
    second = _gathered(_tried(read, remaining_limits, limits, sizing, broadcast), "second")
    planned = keep(
        begun.join(second, list(_OWNER), "left").mapInArrow(
            _by_row(_planned, sizing, _PLANNED), _PLANNED
        )
    )
    halves = planned.where("target_units IS NOT NULL").select(
        *_OWNER, "target_units", fn.explode(fn.array(fn.lit(TRAIN), fn.lit(TEST))).alias("span")
    )
    proofs = _tried(read, halves, [fn.col("target_units")], sizing, broadcast)
    planned_with_proofs = planned.join(_gathered(proofs, "proofs"), list(_OWNER), "left")
    table = struct(RECOMMENDATION)
    return conforming(
        planned_with_proofs.mapInArrow(_by_row(_final, sizing, table), table), RECOMMENDATION
    )


def _read(
    samples: DataFrame, cases: DataFrame, sizing: SizingParameters, *, broadcast: bool
) -> DataFrame:
    """The samples of all cases, once per span that they belong to."""
    ts = fn.col("ts_ms")
    owners = cases.select("cluster_id", "quota_type", *BUCKET, "n", "max_gap_ms")
    week = integer_columns.quotient(fn.lit(sizing.split - 1) - ts, fn.lit(WEEK_MS)).cast("int")
    spans = fn.when(ts < sizing.split, fn.array(fn.lit(TRAIN), week + fn.lit(WEEKS))).otherwise(
        fn.array(fn.lit(TEST))
    )
    return (
        samples.where((ts >= sizing.from_ms) & (ts < sizing.to_ms))
        .join(
            fn.broadcast(owners) if broadcast else owners, ["cluster_id", "quota_type", *BUCKET]
        )
        .select(
            *_OWNER, "broker_id", "max_gap_ms", "ts_ms", "dt_ms", "rate_units", "censored",
            fn.explode(spans).alias("span"),
        )
    )  # fmt: skip


def _observations(read: DataFrame) -> DataFrame:
    """What each broker saw in each span."""
    censored_ms = fn.when(fn.col("censored") == str(Censored.YES), fn.col("dt_ms")).otherwise(
        fn.lit(0)
    )
    first = fn.min(fn.struct("ts_ms", "dt_ms"))
    return read.groupBy(*_SERIES).agg(
        fn.count(fn.lit(1)).alias("samples"),
        (first["ts_ms"] - first["dt_ms"]).alias("begins_ms"),
        fn.max("ts_ms").alias("ends_ms"),
        fn.sum("dt_ms").alias("covered_ms"),
        fn.sum(censored_ms).alias("censored_ms"),
        fn.max("rate_units").alias("peak"),
    )


def _gathered(frame: DataFrame, name: str) -> DataFrame:
    """All that was found of a case as one list."""
    value_columns = [column for column in frame.columns if column not in _OWNER]
    return frame.groupBy(*_OWNER).agg(fn.collect_list(fn.struct(*value_columns)).alias(name))


def _tried(
    read: DataFrame,
    of: DataFrame,
    limits: list[Column],
    sizing: SizingParameters,
    broadcast: bool,  # noqa: FBT001 - private, handed on
) -> DataFrame:
    """What limits do in each span on each broker; one that reaches the cut of all rates is none."""
    names = [f"q{at}" for at in range(len(limits))]
    case_columns = of.select(
        *_OWNER,
        "span",
        *(
            fn.when(column < MAX_UNITS, column).alias(name)
            for name, column in zip(names, limits, strict=True)
        ),
    )
    return throttle_windows.trials(
        read.join(fn.broadcast(case_columns) if broadcast else case_columns, [*_OWNER, "span"]),
        _SERIES,
        {name: fn.col(name) for name in names},
        fn.col("max_gap_ms"),
        wide=sizing.wide,
    ).drop("limits")


_LEFT: Final = StructType(
    [
        StructField("cluster_id", StringType()),
        StructField("quota_type", StringType()),
        StructField("n", IntegerType()),
        StructField("span", IntegerType()),
        StructField("limits", ArrayType(LongType())),
    ]
)
_PLANNED: Final = StructType(
    [
        *struct(RECOMMENDATION).fields,
        StructField("n", IntegerType()),
        StructField("marks", ArrayType(StringType())),
    ]
)


def _by_row(
    make: Callable[[dict[str, Any], SizingParameters], Iterable[dict[str, Any]]],
    sizing: SizingParameters,
    schema: StructType,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function of rows as a function of batches."""

    def made(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        arrow = to_arrow_schema(schema)
        for batch in batches:
            rows = [result_row for row in batch.to_pylist() for result_row in make(row, sizing)]
            yield pa.RecordBatch.from_pylist(rows, schema=arrow)

    return made


def _case(row: dict[str, Any], sizing: SizingParameters) -> SizingCase:
    marks = row["marks"] or ()
    return SizingCase(
        kind=QuotaType(row["quota_type"]),
        series={},
        from_ms=sizing.from_ms,
        to_ms=sizing.to_ms,
        max_gap_ms=row.get("max_gap_ms") or 0,
        current=row["current_units"],
        budget=row.get("budget_units"),
        pinned=PINNED in marks,
        bumped=BUMPED in marks,
    )


Known = dict[int | None, tuple[Forecast, ...]]


def _forecasts(
    kind: QuotaType, forecast_rows: list[dict[str, Any]], limits: Iterable[int]
) -> Known:
    """What was found of some limits in a span, by limit."""
    return {
        limit if limit < MAX_UNITS else None: tuple(
            Forecast(
                model=MODEL_OF[kind],
                samples=0,
                covered_ms=forecast_row["covered_ms"],
                arrived_units=0,
                throttled_ms=forecast_row["throttled_ms"][at],
                max_delay_ms=forecast_row["max_delay_ms"][at],
                over_timeout_ms=None,
                delayed_units=0,
                unfinished=0,
            )
            for forecast_row in forecast_rows
        )
        for at, limit in enumerate(limits)
    }


def _of_span(row: dict[str, Any], name: str, span: int) -> list[dict[str, Any]]:
    return [entry for entry in row.get(name) or () if entry["span"] == span]


def _trial(row: dict[str, Any], span: int, sizing: SizingParameters) -> LimitTrial:
    """A span with all that is known of it so far."""
    kind = QuotaType(row["quota_type"])
    observations = _of_span(row, "seen", span)
    peak = max((observation["peak"] for observation in observations), default=0)
    forecasts_by_limit: Known = {}
    trial = LimitTrial(
        brokers=len(observations), peak=peak, simulated=forecasts_by_limit.__getitem__
    )
    if peak:
        forecasts_by_limit |= _forecasts(kind, _of_span(row, "first", span), first_round(peak))
        second = _of_span(row, "second", span)
        if second:
            forecasts_by_limit |= _forecasts(
                kind, second, _remaining_limits(trial, row, span, sizing)
            )
    return trial


def _remaining_limits(
    trial: LimitTrial, row: dict[str, Any], span: int, sizing: SizingParameters
) -> list[int]:
    """The limits that the first round leaves to try; weeks are asked for the promise alone, but for the latest."""
    tier_promises = promises(sizing.tier(row["tier"], QuotaType(row["quota_type"])))
    relevant_promises = tier_promises if span in (TRAIN, WEEKS) else tier_promises[:1]
    limits = {limit for promise in relevant_promises for limit in trial.second_round(promise)}
    return sorted(limits.difference(first_round(trial.peak)))


def _second(row: dict[str, Any], sizing: SizingParameters) -> Iterator[dict[str, Any]]:
    """The second round of a case, span by span."""
    for span in sorted({entry["span"] for entry in row["first"] or ()} - {TEST}):
        limits = _remaining_limits(_trial(row, span, sizing), row, span, sizing)
        if limits:
            owner = {name: row[name] for name in _OWNER}
            yield owner | {"span": span, "limits": limits}


def _planned(row: dict[str, Any], sizing: SizingParameters) -> Iterator[dict[str, Any]]:
    """The limit of a case, before it is proven."""
    case = _case(row, sizing)
    brokers: dict[str, list[dict[str, Any]]] = {}
    for observation in row["seen"] or ():
        if observation["span"] in (TRAIN, TEST):
            brokers.setdefault(observation["broker_id"], []).append(observation)
    evidence = evidence_of(case, [_both(halves) for halves in brokers.values()])
    spans = range(WEEKS, WEEKS + len(week_spans(case)))
    sized_recommendation = sized(
        case,
        sizing.tier(row["tier"], case.kind),
        evidence,
        _trial(row, TRAIN, sizing),
        [_trial(row, span, sizing) for span in spans],
        tested=bool(_of_span(row, "seen", TEST)),
    )
    yield {name: row.get(name) for name in _PLANNED.names} | {
        "advice": str(sized_recommendation.advice),
        "target_units": sized_recommendation.target,
        "needed_units": sized_recommendation.needed,
        "lower_units": sized_recommendation.lower,
        "upper_units": sized_recommendation.upper,
        "worst_week_units": sized_recommendation.worst_week,
        "peak_units": sized_recommendation.peak,
        "confidence_ppm": sized_recommendation.confidence_ppm,
        "censored_ppm": sized_recommendation.censored_ppm,
        "rules": [str(rule) for rule in sized_recommendation.rules],
        "evidence_ms": sized_recommendation.evidence_ms,
        "samples": sized_recommendation.samples,
        "brokers": len(brokers),
        "day": sizing.day,
    }


def _both(halves: list[dict[str, Any]]) -> BucketObservation:
    """What one broker saw before and in the held-out week."""
    return BucketObservation(
        samples=sum(half["samples"] for half in halves),
        begins_ms=min(halves, key=lambda half: int(half["ends_ms"]))["begins_ms"],
        ends_ms=max(half["ends_ms"] for half in halves),
        covered_ms=sum(half["covered_ms"] for half in halves),
        censored_ms=sum(half["censored_ms"] for half in halves),
    )


def _final(row: dict[str, Any], sizing: SizingParameters) -> Iterator[dict[str, Any]]:
    """A case with its proof."""
    target = row["target_units"]
    values_by_column = {name: row[name] for name in RECOMMENDATION.names}
    if target is None:
        yield values_by_column
        return
    case = _case(row, sizing)
    planned = Recommendation(advice=Advice.INSUFFICIENT, current=case.current, target=target)
    proofs = []
    for span in (TRAIN, TEST):
        forecast_rows = _of_span(row, "proofs", span)
        forecasts_by_limit = _forecasts(case.kind, forecast_rows, [target])
        trial = LimitTrial(
            brokers=len(forecast_rows), peak=0, simulated=forecasts_by_limit.__getitem__
        )
        proofs.append(trial.proof(target))
    proven_recommendation = proven(
        case, sizing.tier(row["tier"], case.kind), planned, proofs[0], proofs[1]
    )
    values_by_column["advice"] = str(proven_recommendation.advice)
    for half, proof in (
        ("train", proven_recommendation.train),
        ("test", proven_recommendation.test),
    ):
        values_by_column[f"{half}_share_ppm"] = proof.share_ppm if proof else None
        values_by_column[f"{half}_max_delay_ms"] = proof.max_delay_ms if proof else None
    yield values_by_column
