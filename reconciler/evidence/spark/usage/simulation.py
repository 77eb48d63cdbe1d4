"""What a change of limits would have done to recorded use: samples and questions in, rows of ``impact_row`` out.

Samples are folded natively (:mod:`reconciler.evidence.spark.usage.throttle_windows`), the sums of several old buckets natively before that. The
verdict on one bucket on one broker is the core's (``usage.verdict.weighed``), asked over aggregated rows: one per
bucket and broker.
"""

import datetime as dt
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from reconciler.evidence.spark.tables.schemas import conforming, struct
from reconciler.evidence.spark.usage import throttle_windows
from reconciler.evidence.spark.usage.candidate_plans import columns_of
from reconciler.evidence.spark.usage.impact_query import (
    ASKED,
    BUCKET,
    bucket_of_row,
)
from reconciler.evidence.store.files.arrow_tables import schema as arrow_schema
from reconciler.usage.impact.bucket_mapping import Identifiability
from reconciler.usage.impact.query import BucketInput, ImpactRequest
from reconciler.usage.impact.result_rows import ImpactRow
from reconciler.usage.impact.verdict import ImpactFacts, weighed
from reconciler.usage.impact.what_if import row_of
from reconciler.usage.samples import MAX_UNITS, Censored, QuotaType
from reconciler.usage.tables import IMPACT_ROW
from reconciler.usage.throttle_models import (
    MIN_DELAY_MS,
    MODEL_OF,
    Forecast,
    simulate,
)

SUM: Final = -1
"""The slot of the sum of several parts; the parts themselves are numbered from 0."""

_SEVERITY: Final = (str(Censored.NO), str(Censored.UNKNOWN), str(Censored.YES))
_OWNER: Final = ("cluster_id", "quota_type", "n")


def impacts(
    samples: DataFrame,
    questions: DataFrame,
    day: dt.date,
    *,
    min_delay_ms: int = MIN_DELAY_MS,
    wide: bool = False,
    broadcast: bool = True,
) -> DataFrame:
    """Each bucket that changes on each broker, before and after: equal to ``usage.whatif.judged``.

    Args:
        samples: Rows of ``usage_sample`` within the window.
        questions: What :func:`reconciler.evidence.spark.usage.impact_query.questions` answered; kept, for it is read several times.
        day: The last day of the window.
        min_delay_ms: A shorter delay is no throttling.
        wide: Whether sums are to have 38 digits (:mod:`reconciler.evidence.spark.usage.throttle_windows`).
        broadcast: Whether the buckets that are asked for fit every executor; else samples are shuffled once more.
    """
    rows = questions.where(fn.col("item") == ASKED)
    parts = parts_of(questions)
    forecasts = apart(samples, parts, min_delay_ms, wide=wide, broadcast=broadcast).unionByName(
        together(samples, parts, min_delay_ms, wide=wide, broadcast=broadcast)
    )
    gathered_forecasts = forecasts.groupBy(*_OWNER).agg(
        fn.collect_list(
            fn.struct(*(name for name in forecasts.columns if name not in _OWNER))
        ).alias("found")
    )
    rows_with_forecasts = rows.join(gathered_forecasts, list(_OWNER), "left").withColumn(
        "day", fn.lit(day)
    )
    return conforming(rows_with_forecasts.mapInArrow(_judged, struct(IMPACT_ROW)), IMPACT_ROW)


def parts_of(questions: DataFrame) -> DataFrame:
    """The series to read, one row for each part of each row that is asked for."""
    return (
        questions.where(fn.col("item") == ASKED)
        .select(
            *_OWNER,
            "broker_id",
            "max_gap_ms",
            "after_units",
            fn.size("parts").alias("of"),
            fn.posexplode("parts").alias("slot", "part"),
        )
        .select("*", *(fn.col(f"part.{name}").alias(name) for name in BUCKET))
    )


def _read(samples: DataFrame, parts: DataFrame, *, broadcast: bool) -> DataFrame:
    """The samples of each part, as often as a part is asked for."""
    wanted_parts = fn.broadcast(parts) if broadcast else parts
    return samples.join(wanted_parts, ["cluster_id", "quota_type", "broker_id", *BUCKET])


def apart(
    samples: DataFrame, parts: DataFrame, min_delay_ms: int, *, wide: bool, broadcast: bool
) -> DataFrame:
    """Every part by itself under its limit of today; one that is alone also under the limit to come."""
    read = _read(samples, parts, broadcast=broadcast).select(
        *_OWNER,
        "slot",
        "max_gap_ms",
        *_TAKEN,
        fn.col("part.limit").alias("now"),
        # Where it is one of several, the limit to come is not its own: none makes no work.
        fn.when(fn.col("of") == 1, fn.col("after_units")).alias("then"),
    )
    return _folded(read, min_delay_ms, wide=wide)


def together(
    samples: DataFrame, parts: DataFrame, min_delay_ms: int, *, wide: bool, broadcast: bool
) -> DataFrame:
    """The sums of several parts under the limit to come; moment by moment, as ``usage.series.summed``."""
    summed_parts = parts.where(fn.col("of") > 1)
    summed = (
        _read(samples, summed_parts, broadcast=broadcast)
        # By owner already here, so that neither the sum nor the windows need another exchange.
        .repartition(*_OWNER)
        .groupBy(*_OWNER, "ts_ms")
        .agg(
            fn.max("dt_ms").alias("dt_ms"),
            fn.least(fn.sum("rate_units"), fn.lit(MAX_UNITS)).alias("rate_units"),
            fn.max("throttle_ms").alias("throttle_ms"),
            fn.element_at(fn.array(*map(fn.lit, _SEVERITY)), fn.max(_severity()) + 1).alias(
                "censored"
            ),
            fn.first("max_gap_ms").alias("max_gap_ms"),
            fn.first("after_units").alias("then"),
        )
        .withColumns({"slot": fn.lit(SUM), "now": fn.lit(None).cast("bigint")})
    )
    return _folded(summed, min_delay_ms, wide=wide)


def _folded(series: DataFrame, min_delay_ms: int, *, wide: bool) -> DataFrame:
    """Each slot under the limit that it has now and the one to come."""
    return throttle_windows.forecasts(
        series,
        (*_OWNER, "slot"),
        {"before": fn.col("now"), "after": fn.col("then")},
        fn.col("max_gap_ms"),
        extra_columns=_fact_columns(),
        min_delay_ms=min_delay_ms,
        wide=wide,
    )


_TAKEN: Final = ("ts_ms", "dt_ms", "rate_units", "throttle_ms", "censored")


def _severity() -> Column:
    severity_column = fn.when(fn.col("censored") == _SEVERITY[1], fn.lit(1))
    return severity_column.when(fn.col("censored") == _SEVERITY[2], fn.lit(2)).otherwise(fn.lit(0))


def _fact_columns() -> dict[str, Column]:
    """What a verdict needs besides forecasts; as ``usage.series`` has it."""
    throttled = fn.when(fn.col("throttle_ms") != 0, fn.col("dt_ms")).otherwise(fn.lit(0))
    censored = fn.when(fn.col("censored") == str(Censored.YES), fn.col("dt_ms"))
    return {
        "censored_ms": fn.sum(censored.otherwise(fn.lit(0))),
        "wanted_more": fn.bool_or(fn.col("censored") == str(Censored.YES)),
        "may_have_wanted_more": fn.bool_or(fn.col("censored") != str(Censored.NO)),
        "observed_ms": fn.when(fn.count("throttle_ms") > 0, fn.sum(throttled)),
    }


def _judged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Asked rows with what was found of them -> rows of ``impact_row``."""
    for batch in batches:
        impact_values = [
            columns_of(_impact(row)) | {"day": row["day"]} for row in batch.to_pylist()
        ]
        yield pa.RecordBatch.from_pylist(impact_values, schema=_ARROW)


_ARROW: Final = pa.schema(list(arrow_schema(IMPACT_ROW)))


def _impact(row: dict[str, Any]) -> ImpactRow:
    kind = QuotaType(row["quota_type"])
    request = ImpactRequest(
        quota_type=kind,
        bucket=bucket_of_row(row),
        any_name=row["any_name"],
        broker_id=row["broker_id"],
        answer=Identifiability(row["answer"]),
        parts=tuple(
            BucketInput(bucket=bucket_of_row(part), limit=part["limit"]) for part in row["parts"]
        ),
        before_units=row["before_units"],
        after_units=row["after_units"],
        source_entity=row["source_entity"],
        reason=row["why"],
    )
    forecasts_by_slot = {each["slot"]: each for each in row["found"] or ()}
    combined_forecast = forecasts_by_slot.get(0 if len(request.parts) == 1 else SUM)
    each = [forecasts_by_slot.get(slot) for slot in range(len(request.parts))]
    facts = ImpactFacts(
        kind=kind,
        samples=combined_forecast["samples"] if combined_forecast else 0,
        covered_ms=combined_forecast["covered_ms"] if combined_forecast else 0,
        censored_ms=combined_forecast["censored_ms"] if combined_forecast else 0,
        wanted_more=bool(combined_forecast and combined_forecast["wanted_more"]),
        may_have_wanted_more=bool(combined_forecast and combined_forecast["may_have_wanted_more"]),
        before=tuple(_forecast(kind, part, "before") for part in each),
        observed_ms=tuple(part["observed_ms"] if part else 0 for part in each),
        after=_forecast(kind, combined_forecast, "after") if combined_forecast else None,
    )
    impact = weighed(
        request.answer, [part.limit for part in request.parts], request.after_units, facts
    )
    return row_of(row["cluster_id"], request, impact)


def _forecast(kind: QuotaType, forecast_values: dict[str, Any] | None, which: str) -> Forecast:
    """A forecast from its columns; of no sample at all where a part has none in the window."""
    values_by_name = forecast_values or {
        "samples": 0,
        "covered_ms": 0,
        "arrived_units": 0,
        which: _NOTHING[kind],
    }
    return Forecast(
        model=MODEL_OF[kind],
        samples=values_by_name["samples"],
        covered_ms=values_by_name["covered_ms"],
        arrived_units=values_by_name["arrived_units"],
        **values_by_name[which],
    )


_NOTHING: Final = {
    kind: {name: getattr(simulate(kind, (), None), name) for name in throttle_windows.FIGURES}
    for kind in QuotaType
}
"""What a limit does to nothing."""
