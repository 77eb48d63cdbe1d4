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

from reconciler.spark import columns, fold
from reconciler.spark.question import BUCKET
from reconciler.spark.schemas import conforming, struct
from reconciler.usage.candidates import FINE, first_round
from reconciler.usage.samples import MAX_UNITS, Censored, QuotaType
from reconciler.usage.sizing import (
    WEEK_MS,
    Advice,
    Case,
    Recommendation,
    Seen,
    Tier,
    evidence_of,
    promises,
    proven,
    sized,
    week_spans,
)
from reconciler.usage.tables import RECOMMENDATION
from reconciler.usage.throttle import MODEL_OF, Forecast
from reconciler.usage.trial import Trial

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
class Sizing:
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
    sizing: Sizing,
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
    seen = keep(_seen(read))
    told = cases.join(_gathered(seen, "seen"), list(_OWNER), "left")
    peaks = seen.groupBy(*_OWNER, "span").agg(fn.max("peak").alias("peak")).where("peak > 0")
    peak = fn.col("peak")
    first = keep(_tried(read, peaks, [*columns.coarse(peak), peak + 1], sizing, broadcast))
    begun = keep(told.join(_gathered(first, "first"), list(_OWNER), "left"))
    left = keep(begun.mapInArrow(_by_row(_second, sizing, _LEFT), _LEFT))
    limits = [fn.get("limits", fn.lit(at)) for at in range(_SECOND)]
    second = _gathered(_tried(read, left, limits, sizing, broadcast), "second")
    planned = keep(
        begun.join(second, list(_OWNER), "left").mapInArrow(
            _by_row(_planned, sizing, _PLANNED), _PLANNED
        )
    )
    halves = planned.where("target_units IS NOT NULL").select(
        *_OWNER, "target_units", fn.explode(fn.array(fn.lit(TRAIN), fn.lit(TEST))).alias("span")
    )
    proofs = _tried(read, halves, [fn.col("target_units")], sizing, broadcast)
    done = planned.join(_gathered(proofs, "proofs"), list(_OWNER), "left")
    table = struct(RECOMMENDATION)
    return conforming(done.mapInArrow(_by_row(_final, sizing, table), table), RECOMMENDATION)


def _read(samples: DataFrame, cases: DataFrame, sizing: Sizing, *, broadcast: bool) -> DataFrame:
    """The samples of all cases, once per span that they belong to."""
    ts = fn.col("ts_ms")
    owners = cases.select("cluster_id", "quota_type", *BUCKET, "n", "max_gap_ms")
    week = columns.quotient(fn.lit(sizing.split - 1) - ts, fn.lit(WEEK_MS)).cast("int")
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


def _seen(read: DataFrame) -> DataFrame:
    """What each broker saw in each span."""
    wanted = fn.when(fn.col("censored") == str(Censored.YES), fn.col("dt_ms")).otherwise(fn.lit(0))
    first = fn.min(fn.struct("ts_ms", "dt_ms"))
    return read.groupBy(*_SERIES).agg(
        fn.count(fn.lit(1)).alias("samples"),
        (first["ts_ms"] - first["dt_ms"]).alias("begins_ms"),
        fn.max("ts_ms").alias("ends_ms"),
        fn.sum("dt_ms").alias("covered_ms"),
        fn.sum(wanted).alias("censored_ms"),
        fn.max("rate_units").alias("peak"),
    )


def _gathered(found: DataFrame, name: str) -> DataFrame:
    """All that was found of a case as one list."""
    told = [column for column in found.columns if column not in _OWNER]
    return found.groupBy(*_OWNER).agg(fn.collect_list(fn.struct(*told)).alias(name))


def _tried(
    read: DataFrame,
    of: DataFrame,
    limits: list[Column],
    sizing: Sizing,
    broadcast: bool,  # noqa: FBT001 - private, handed on
) -> DataFrame:
    """What limits do in each span on each broker; one that reaches the cut of all rates is none."""
    names = [f"q{at}" for at in range(len(limits))]
    known = of.select(
        *_OWNER,
        "span",
        *(
            fn.when(one < MAX_UNITS, one).alias(name)
            for name, one in zip(names, limits, strict=True)
        ),
    )
    return fold.trials(
        read.join(fn.broadcast(known) if broadcast else known, [*_OWNER, "span"]),
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
    make: Callable[[dict[str, Any], Sizing], Iterable[dict[str, Any]]],
    sizing: Sizing,
    schema: StructType,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function of rows as a function of batches."""

    def made(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        arrow = to_arrow_schema(schema)
        for batch in batches:
            rows = [one for row in batch.to_pylist() for one in make(row, sizing)]
            yield pa.RecordBatch.from_pylist(rows, schema=arrow)

    return made


def _case(row: dict[str, Any], sizing: Sizing) -> Case:
    marks = row["marks"] or ()
    return Case(
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


def _forecasts(kind: QuotaType, found: list[dict[str, Any]], limits: Iterable[int]) -> Known:
    """What was found of some limits in a span, by limit."""
    return {
        limit if limit < MAX_UNITS else None: tuple(
            Forecast(
                model=MODEL_OF[kind],
                samples=0,
                covered_ms=one["covered_ms"],
                arrived_units=0,
                throttled_ms=one["throttled_ms"][at],
                max_delay_ms=one["max_delay_ms"][at],
                over_timeout_ms=None,
                delayed_units=0,
                unfinished=0,
            )
            for one in found
        )
        for at, limit in enumerate(limits)
    }


def _of_span(row: dict[str, Any], name: str, span: int) -> list[dict[str, Any]]:
    return [one for one in row.get(name) or () if one["span"] == span]


def _trial(row: dict[str, Any], span: int, sizing: Sizing) -> Trial:
    """A span with all that is known of it so far."""
    kind = QuotaType(row["quota_type"])
    seen = _of_span(row, "seen", span)
    peak = max((one["peak"] for one in seen), default=0)
    known: Known = {}
    trial = Trial(brokers=len(seen), peak=peak, simulated=known.__getitem__)
    if peak:
        known |= _forecasts(kind, _of_span(row, "first", span), first_round(peak))
        second = _of_span(row, "second", span)
        if second:
            known |= _forecasts(kind, second, _left(trial, row, span, sizing))
    return trial


def _left(trial: Trial, row: dict[str, Any], span: int, sizing: Sizing) -> list[int]:
    """The limits that the first round leaves to try; weeks are asked for the promise alone, but for the latest."""
    asked = promises(sizing.tier(row["tier"], QuotaType(row["quota_type"])))
    wanted = asked if span in (TRAIN, WEEKS) else asked[:1]
    found = {limit for promise in wanted for limit in trial.second_round(promise)}
    return sorted(found.difference(first_round(trial.peak)))


def _second(row: dict[str, Any], sizing: Sizing) -> Iterator[dict[str, Any]]:
    """The second round of a case, span by span."""
    for span in sorted({one["span"] for one in row["first"] or ()} - {TEST}):
        limits = _left(_trial(row, span, sizing), row, span, sizing)
        if limits:
            owner = {name: row[name] for name in _OWNER}
            yield owner | {"span": span, "limits": limits}


def _planned(row: dict[str, Any], sizing: Sizing) -> Iterator[dict[str, Any]]:
    """The limit of a case, before it is proven."""
    case = _case(row, sizing)
    brokers: dict[str, list[dict[str, Any]]] = {}
    for one in row["seen"] or ():
        if one["span"] in (TRAIN, TEST):
            brokers.setdefault(one["broker_id"], []).append(one)
    told = evidence_of(case, [_both(halves) for halves in brokers.values()])
    spans = range(WEEKS, WEEKS + len(week_spans(case)))
    found = sized(
        case,
        sizing.tier(row["tier"], case.kind),
        told,
        _trial(row, TRAIN, sizing),
        [_trial(row, span, sizing) for span in spans],
        tested=bool(_of_span(row, "seen", TEST)),
    )
    yield {name: row.get(name) for name in _PLANNED.names} | {
        "advice": str(found.advice),
        "target_units": found.target,
        "needed_units": found.needed,
        "lower_units": found.lower,
        "upper_units": found.upper,
        "worst_week_units": found.worst_week,
        "peak_units": found.peak,
        "confidence_ppm": found.confidence_ppm,
        "censored_ppm": found.censored_ppm,
        "rules": [str(rule) for rule in found.rules],
        "evidence_ms": found.evidence_ms,
        "samples": found.samples,
        "brokers": len(brokers),
        "day": sizing.day,
    }


def _both(halves: list[dict[str, Any]]) -> Seen:
    """What one broker saw before and in the held-out week."""
    return Seen(
        samples=sum(one["samples"] for one in halves),
        begins_ms=min(halves, key=lambda one: int(one["ends_ms"]))["begins_ms"],
        ends_ms=max(one["ends_ms"] for one in halves),
        covered_ms=sum(one["covered_ms"] for one in halves),
        censored_ms=sum(one["censored_ms"] for one in halves),
    )


def _final(row: dict[str, Any], sizing: Sizing) -> Iterator[dict[str, Any]]:
    """A case with its proof."""
    target = row["target_units"]
    made = {name: row[name] for name in RECOMMENDATION.names}
    if target is None:
        yield made
        return
    case = _case(row, sizing)
    planned = Recommendation(advice=Advice.INSUFFICIENT, current=case.current, target=target)
    proofs = []
    for span in (TRAIN, TEST):
        found = _of_span(row, "proofs", span)
        known = _forecasts(case.kind, found, [target])
        trial = Trial(brokers=len(found), peak=0, simulated=known.__getitem__)
        proofs.append(trial.proof(target))
    told = proven(case, sizing.tier(row["tier"], case.kind), planned, proofs[0], proofs[1])
    made["advice"] = str(told.advice)
    for half, proof in (("train", told.train), ("test", told.test)):
        made[f"{half}_share_ppm"] = proof.share_ppm if proof else None
        made[f"{half}_max_delay_ms"] = proof.max_delay_ms if proof else None
    yield made
