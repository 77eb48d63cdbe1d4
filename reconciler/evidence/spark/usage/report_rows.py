"""Rows of results as the values that are shown: a bounded number, the most significant first, the rest counted."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any, Final, TypeAlias, TypeVar, get_args, get_type_hints

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as fn

from reconciler.evidence.spark.limits.effective_limits import BUCKET
from reconciler.evidence.spark.tables import bounded_rows
from reconciler.evidence.spark.usage.impact_query import bucket_of_row
from reconciler.evidence.spark.usage.limit_usage import SERIES
from reconciler.usage.demand_bounds import FigureBound
from reconciler.usage.impact.result_rows import (
    BLIND,
    MAY_BE_WORSE,
    SEVERITIES,
    ImpactRow,
    RecommendationRow,
)
from reconciler.usage.impact.verdict import MINUTES_PER_DAY, ImpactVerdict
from reconciler.usage.recommendation.limit_sizes import Advice
from reconciler.usage.reports.profiles import UsageState
from reconciler.usage.reports.usage import (
    CapacityRow,
    NoisyRow,
    UsageCurve,
    UsageRow,
)
from reconciler.usage.samples import QuotaType
from reconciler.usage.tags import Bucket

T = TypeVar("T")

Values: TypeAlias = Row | Mapping[str, Any]
"""A row by the names of its columns."""

MOST_ROWS: Final = 10_000
"""Rows of a table that a report may hold at all."""

_STATES: Final = (
    UsageState.THROTTLED,
    UsageState.NEAR_LIMIT,
    UsageState.UNUSED,
    UsageState.NO_DATA,
    UsageState.USED,
    UsageState.IDLE,
)
"""What is shown first."""

_ADVICE: Final = (Advice.CHANGE, Advice.REFUSED, Advice.INSUFFICIENT, Advice.KEEP)


def value_of(row: Values, kind: Callable[..., T]) -> T:
    """A row of a table as the value that has its columns; a bucket's columns become one."""
    hints = get_type_hints(kind)
    values_by_field: dict[str, Any] = {}
    for row_field in fields(kind):  # type: ignore[arg-type] # rows of reports are dataclasses
        if row_field.name == "bucket":
            values_by_field["bucket"] = bucket_of_row(row)
        else:
            values_by_field[row_field.name] = _typed(row[row_field.name], hints[row_field.name])
    return kind(**values_by_field)


def _typed(value: Any, hint: object) -> object:  # noqa: ANN401 - a cell of any type
    if isinstance(value, list):
        inner = get_args(hint)[0]
        return tuple(_typed(element, inner) for element in value)
    return hint(value) if isinstance(hint, type) and issubclass(hint, Enum) else value


def first(
    frame: DataFrame, kind: Callable[..., T], order: Sequence[Column | str], max_rows: int
) -> tuple[tuple[T, ...], int]:
    """The first rows of a result, and how many more there are.

    Args:
        frame: Rows of the table of ``kind``; kept, for it is read twice.
        kind: What they become.
        order: The most telling first; completed so that equal frames give equal rows.
        max_rows: How many.
    """
    row_limit = min(max_rows, MOST_ROWS)
    rows = bounded_rows.rows(frame.orderBy(*order).limit(row_limit), row_limit, "rows")
    total_count = frame.count() if len(rows) == row_limit else len(rows)
    return tuple(value_of(row, kind) for row in rows), total_count - len(rows)


def may_be_worse() -> Column:
    """:attr:`ImpactRow.may_be_worse` of a row of ``impact_row``."""
    observed_ms = fn.greatest("censored_ms", fn.coalesce("observed_throttled_ms", fn.lit(0)))
    before, after = fn.col("before_units"), fn.col("after_units")
    tighter = after.isNotNull() & (before.isNull() | (after < before))
    return (
        (fn.col("verdict") == str(ImpactVerdict.SAME))
        & (fn.col("bound") == str(FigureBound.AT_LEAST))
        & (observed_ms * MINUTES_PER_DAY > fn.col("covered_ms"))
        & fn.coalesce(tighter, fn.lit(False))  # noqa: FBT003 - a value of SQL
    )


def severity() -> Column:
    """:attr:`ImpactRow.severity` of a row of ``impact_row``."""
    severity_column = fn.when(may_be_worse(), fn.lit(MAY_BE_WORSE))
    for verdict, number in SEVERITIES.items():
        severity_column = severity_column.when(fn.col("verdict") == str(verdict), fn.lit(number))
    return severity_column


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictCounts:
    """Counts of all rows of ``impact_row``.

    Attributes:
        blind: How many could not be judged.
    """

    verdicts: Mapping[ImpactVerdict, int]
    blind: int

    @property
    def rows(self) -> int:
        """How many there are."""
        return sum(self.verdicts.values())


def tally(frame: DataFrame) -> VerdictCounts:
    """What all rows of ``impact_row`` say, counted in one pass."""
    grouped = frame.groupBy("verdict", may_be_worse().alias("open")).count()
    count_rows = bounded_rows.rows(grouped, 2 * len(ImpactVerdict), "verdicts")
    amounts = {
        verdict: sum(row["count"] for row in count_rows if row["verdict"] == str(verdict))
        for verdict in ImpactVerdict
    }
    return VerdictCounts(
        verdicts={verdict: amount for verdict, amount in amounts.items() if amount},
        blind=sum(amounts[verdict] for verdict in BLIND)
        + sum(row["count"] for row in count_rows if row["open"]),
    )


def impact_rows(frame: DataFrame, max_rows: int) -> tuple[tuple[ImpactRow, ...], int]:
    """Rows of ``impact_row``: the worst first."""
    order = [
        severity().desc(),
        fn.col("after_throttled_ms").desc_nulls_last(),
        *map(fn.col, SERIES),
    ]
    return first(frame, ImpactRow, order, max_rows)


def recommendation_rows(
    frame: DataFrame, max_rows: int
) -> tuple[tuple[RecommendationRow, ...], int]:
    """Rows of ``recommendation``: what should change before what was refused, too thin, or may stay; in each the furthest first."""
    rank = fn.lit(len(_ADVICE))
    for number, advice in enumerate(_ADVICE):
        rank = fn.when(fn.col("advice") == str(advice), fn.lit(number)).otherwise(rank)
    change_amount = fn.abs(fn.col("target_units") - fn.coalesce("current_units", fn.lit(0)))
    return first(
        frame,
        RecommendationRow,
        [rank, change_amount.desc_nulls_last(), *map(fn.col, BUCKET)],
        max_rows,
    )


def usage_rows(frame: DataFrame, max_rows: int) -> tuple[tuple[UsageRow, ...], int]:
    """Rows of ``usage_row``: throttled first, then the nearest to their limit."""
    severity = fn.lit(len(_STATES))
    for number, state in enumerate(_STATES):
        severity = fn.when(fn.col("state") == str(state), fn.lit(number)).otherwise(severity)
    fullness = fn.col("max_rate_units").cast("double") / fn.col("limit_units").cast("double")
    order = [
        severity,
        fn.col("throttled_ms").desc_nulls_last(),
        fullness.desc_nulls_last(),
        *map(fn.col, SERIES),
    ]
    return first(frame, UsageRow, order, max_rows)


def capacity_rows(frame: DataFrame, max_rows: int) -> tuple[tuple[CapacityRow, ...], int]:
    """Rows of ``capacity_row``: the most overloaded first."""
    order = [fn.col("overload_ms").desc_nulls_last(), fn.col("coincident_ppm").desc_nulls_last()]
    names = ("cluster_id", "broker_id", "direction")
    return first(frame, CapacityRow, [*order, *map(fn.col, names)], max_rows)


def noisy_rows(frame: DataFrame, max_rows: int) -> tuple[tuple[NoisyRow, ...], int]:
    """Rows of ``noisy_row``: the largest excess first."""
    return first(
        frame,
        NoisyRow,
        [fn.col("excess_units").desc(), fn.col("bucket_ms"), *map(fn.col, SERIES)],
        max_rows,
    )


Limits = dict[tuple[str, QuotaType, Bucket, str], tuple[int | None, int | None]]
"""Limits now and then of a bucket on a broker."""


def curves(
    frame: DataFrame, limits: Limits, span_ms: int, max_curves: int
) -> tuple[UsageCurve, ...]:
    """Curves from :func:`reconciler.evidence.spark.usage.limit_usage.curves`, in the order of ``limits``.

    Args:
        frame: Spans of the buckets that ``limits`` names.
        limits: Of each.
        span_ms: Length of a span.
        max_curves: Spans in all; more are an error.
    """
    points: dict[tuple[str, QuotaType, Bucket, str], list[Row]] = {
        series_key: [] for series_key in limits
    }
    for row in bounded_rows.rows(
        frame.orderBy(*SERIES, "begin_ms"), max_curves, "points of curves"
    ):
        points[row.cluster_id, QuotaType(row.quota_type), bucket_of_row(row), row.broker_id].append(
            row
        )
    return tuple(
        UsageCurve(
            cluster_id=key[0],
            quota_type=key[1],
            bucket=key[2],
            broker_id=key[3],
            points=tuple((one.begin_ms, one.mean_units, one.max_rate_units) for one in rows),
            span_ms=span_ms,
            before_units=limits[key][0],
            after_units=limits[key][1],
            throttled=tuple(point.begin_ms for point in rows if point.throttled_ms),
        )
        for key, rows in points.items()
        if rows
    )
