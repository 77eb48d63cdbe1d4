"""Rows of results as report values: a bounded number, the most significant first, the rest counted."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as fn

from reconciler.codecs.reader import DocumentReader
from reconciler.codecs.row_values import read_row
from reconciler.evidence.spark.tables import bounded_rows
from reconciler.evidence.spark.usage.effective_limits import BUCKET
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
from reconciler.usage.reports.usage import (
    CapacityRow,
    NoisyRow,
    UsageCurve,
    UsageRow,
    UsageState,
)
from reconciler.usage.samples import QuotaType
from reconciler.usage.tags import Bucket, bucket_of_row

T = TypeVar("T")

MOST_ROWS: Final = 10_000
"""Maximum number of rows of a table in a report."""

_STATES: Final = {
    UsageState.THROTTLED: 0,
    UsageState.NEAR_LIMIT: 1,
    UsageState.UNUSED: 2,
    UsageState.NO_DATA: 3,
    UsageState.USED: 4,
    UsageState.IDLE: 5,
}
"""Display order."""

_ADVICE: Final = {Advice.CHANGE: 0, Advice.REFUSED: 1, Advice.INSUFFICIENT: 2, Advice.KEEP: 3}


def first(
    frame: DataFrame, kind: Callable[..., T], order: Sequence[Column | str], max_rows: int
) -> tuple[tuple[T, ...], int]:
    """Return the first rows of a result, and the number of remaining rows.

    Args:
        frame: Rows of the table of ``kind``, persisted, since it is read twice.
        kind: The class of the values.
        order: The most significant first; a total order, so that equal frames give equal rows.
        max_rows: Maximum number of rows.
    """
    row_limit = min(max_rows, MOST_ROWS)
    rows = bounded_rows.rows(frame.orderBy(*order).limit(row_limit), row_limit, "rows")
    total_count = frame.count() if len(rows) == row_limit else len(rows)
    values = tuple(read_row(DocumentReader(row.asDict()), kind) for row in rows)
    return values, total_count - len(rows)


def may_be_worse() -> Column:
    """Return :attr:`ImpactRow.may_be_worse` of a row of ``impact_row``."""
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
    """Return :attr:`ImpactRow.severity` of a row of ``impact_row``."""
    return fn.when(may_be_worse(), fn.lit(MAY_BE_WORSE)).otherwise(_number("verdict", SEVERITIES))


def _number(name: str, numbers: Mapping[Any, int]) -> Column:
    """Return the number of the word in a column."""
    pairs = (fn.lit(part) for word, number in numbers.items() for part in (str(word), number))
    return fn.create_map(*pairs)[fn.col(name)]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictCounts:
    """Counts of all rows of ``impact_row``."""

    verdicts: Mapping[ImpactVerdict, int]
    blind: int  # number of rows without a judgement

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(self.verdicts.values())


def tally(frame: DataFrame) -> VerdictCounts:
    """Count the verdicts of all rows of ``impact_row`` in one pass."""
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
    """Return rows of ``impact_row``, the worst first."""
    order = [
        severity().desc(),
        fn.col("after_throttled_ms").desc_nulls_last(),
        *map(fn.col, SERIES),
    ]
    return first(frame, ImpactRow, order, max_rows)


def recommendation_rows(
    frame: DataFrame, max_rows: int
) -> tuple[tuple[RecommendationRow, ...], int]:
    """Return rows of ``recommendation``: changes, then refused, insufficient and kept ones; each with the largest difference first."""
    rank = _number("advice", _ADVICE)
    change_amount = fn.abs(fn.col("target_units") - fn.coalesce("current_units", fn.lit(0)))
    return first(
        frame,
        RecommendationRow,
        [rank, change_amount.desc_nulls_last(), *map(fn.col, BUCKET)],
        max_rows,
    )


def usage_rows(frame: DataFrame, max_rows: int) -> tuple[tuple[UsageRow, ...], int]:
    """Return rows of ``usage_row``: throttled first, then by use relative to the limit."""
    fullness = fn.col("max_rate_units").cast("double") / fn.col("limit_units").cast("double")
    order = [
        _number("state", _STATES),
        fn.col("throttled_ms").desc_nulls_last(),
        fullness.desc_nulls_last(),
        *map(fn.col, SERIES),
    ]
    return first(frame, UsageRow, order, max_rows)


def capacity_rows(frame: DataFrame, max_rows: int) -> tuple[tuple[CapacityRow, ...], int]:
    """Return rows of ``capacity_row``, the most overloaded first."""
    order = [fn.col("overload_ms").desc_nulls_last(), fn.col("coincident_ppm").desc_nulls_last()]
    names = ("cluster_id", "broker_id", "direction")
    return first(frame, CapacityRow, [*order, *map(fn.col, names)], max_rows)


def noisy_rows(frame: DataFrame, max_rows: int) -> tuple[tuple[NoisyRow, ...], int]:
    """Return rows of ``noisy_row``, the largest excess first."""
    return first(
        frame,
        NoisyRow,
        [fn.col("excess_units").desc(), fn.col("bucket_ms"), *map(fn.col, SERIES)],
        max_rows,
    )


Limits = dict[tuple[str, QuotaType, Bucket, str], tuple[int | None, int | None]]
"""Limits before and after, of a bucket on a broker."""


def curves(
    frame: DataFrame, limits: Limits, span_ms: int, max_curves: int
) -> tuple[UsageCurve, ...]:
    """Return the curves of :func:`reconciler.evidence.spark.usage.limit_usage.curves`, in the order of ``limits``.

    Args:
        frame: Spans of the buckets in ``limits``.
        limits: Limits of each curve.
        span_ms: Length of a span.
        max_curves: Maximum number of points of all curves; more is an error.
    """
    points: dict[tuple[str, QuotaType, Bucket, str], list[Row]] = {
        series_key: [] for series_key in limits
    }
    for row in bounded_rows.rows(
        frame.orderBy(*SERIES, "begin_ms"), max_curves, "points of curves"
    ):
        points[
            row.cluster_id, QuotaType(row.quota_type), bucket_of_row(row.asDict()), row.broker_id
        ].append(row)
    return tuple(
        UsageCurve(
            cluster_id=key[0],
            quota_type=key[1],
            bucket=key[2],
            broker_id=key[3],
            points=tuple(
                (point.begin_ms, point.mean_units, point.max_rate_units) for point in rows
            ),
            span_ms=span_ms,
            before_units=limits[key][0],
            after_units=limits[key][1],
            throttled=tuple(point.begin_ms for point in rows if point.throttled_ms),
        )
        for key, rows in points.items()
        if rows
    )
