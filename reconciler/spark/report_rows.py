"""Rows of results as the values that people are told: a bounded number, the most telling first, the rest counted."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any, Final, TypeAlias, TypeVar, get_args, get_type_hints

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as fn

from reconciler.spark import bounded
from reconciler.spark.question import bucket_of_row
from reconciler.spark.resolve import BUCKET
from reconciler.spark.use import SERIES
from reconciler.usage.censoring import Bound
from reconciler.usage.findings import BLIND, MAY_BE_WORSE, SEVERITIES, ImpactRow, RecommendationRow
from reconciler.usage.profiles import UseState
from reconciler.usage.reports import CapacityRow, Curve, NoisyRow, UsageRow
from reconciler.usage.samples import QuotaType
from reconciler.usage.sizing import Advice
from reconciler.usage.tags import Bucket
from reconciler.usage.verdict import MINUTES_PER_DAY, Verdict

T = TypeVar("T")

Values: TypeAlias = Row | Mapping[str, Any]
"""A row by the names of its columns."""

MOST_ROWS: Final = 5_000
"""Rows of a table that a report may hold at all."""

_STATES: Final = (
    UseState.THROTTLED, UseState.NEAR_LIMIT, UseState.UNUSED, UseState.NO_DATA, UseState.USED, UseState.IDLE,
)  # fmt: skip
"""What is told first."""

_ADVICE: Final = (Advice.CHANGE, Advice.REFUSED, Advice.INSUFFICIENT, Advice.KEEP)


def value_of(row: Values, kind: Callable[..., T]) -> T:
    """A row of a table as the value that has its columns; a bucket's columns become one."""
    hints = get_type_hints(kind)
    given: dict[str, Any] = {}
    for one in fields(kind):  # type: ignore[arg-type] # rows of reports are dataclasses
        if one.name == "bucket":
            given["bucket"] = bucket_of_row(row)
        else:
            given[one.name] = _typed(row[one.name], hints[one.name])
    return kind(**given)


def _typed(value: Any, hint: object) -> object:  # noqa: ANN401 - a cell of any type
    if isinstance(value, list):
        inner = get_args(hint)[0]
        return tuple(_typed(one, inner) for one in value)
    return hint(value) if isinstance(hint, type) and issubclass(hint, Enum) else value


def first(
    frame: DataFrame, kind: Callable[..., T], order: Sequence[Column | str], most: int
) -> tuple[tuple[T, ...], int]:
    """The first rows of a result, and how many more there are.

    Args:
        frame: Rows of the table of ``kind``; kept, for it is read twice.
        kind: What they become.
        order: The most telling first; completed so that equal frames give equal rows.
        most: How many.
    """
    asked = min(most, MOST_ROWS)
    rows = bounded.rows(frame.orderBy(*order).limit(asked), asked, "rows")
    whole = frame.count() if len(rows) == asked else len(rows)
    return tuple(value_of(one, kind) for one in rows), whole - len(rows)


def may_be_worse() -> Column:
    """:attr:`ImpactRow.may_be_worse` of a row of ``impact_row``."""
    seen = fn.greatest("censored_ms", fn.coalesce("observed_throttled_ms", fn.lit(0)))
    before, after = fn.col("before_units"), fn.col("after_units")
    tighter = after.isNotNull() & (before.isNull() | (after < before))
    return (
        (fn.col("verdict") == str(Verdict.SAME))
        & (fn.col("bound") == str(Bound.AT_LEAST))
        & (seen * MINUTES_PER_DAY > fn.col("covered_ms"))
        & fn.coalesce(tighter, fn.lit(False))  # noqa: FBT003 - a value of SQL
    )


def severity() -> Column:
    """:attr:`ImpactRow.severity` of a row of ``impact_row``."""
    found = fn.when(may_be_worse(), fn.lit(MAY_BE_WORSE))
    for verdict, number in SEVERITIES.items():
        found = found.when(fn.col("verdict") == str(verdict), fn.lit(number))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Counts of all rows of ``impact_row``.

    Attributes:
        verdicts: How many have which verdict.
        blind: How many could not be judged.
    """

    verdicts: Mapping[Verdict, int]
    blind: int

    @property
    def rows(self) -> int:
        """How many there are."""
        return sum(self.verdicts.values())


def tally(frame: DataFrame) -> Tally:
    """What all rows of ``impact_row`` say, counted in one pass."""
    grouped = frame.groupBy("verdict", may_be_worse().alias("open")).count()
    found = bounded.rows(grouped, 2 * len(Verdict), "verdicts")
    amounts = {
        one: sum(row["count"] for row in found if row["verdict"] == str(one)) for one in Verdict
    }
    return Tally(
        verdicts={one: amount for one, amount in amounts.items() if amount},
        blind=sum(amounts[one] for one in BLIND) + sum(row["count"] for row in found if row["open"]),
    )  # fmt: skip


def impact_rows(frame: DataFrame, most: int) -> tuple[tuple[ImpactRow, ...], int]:
    """Rows of ``impact_row``: the worst first."""
    order = [
        severity().desc(),
        fn.col("after_throttled_ms").desc_nulls_last(),
        *map(fn.col, SERIES),
    ]
    return first(frame, ImpactRow, order, most)


def recommendation_rows(frame: DataFrame, most: int) -> tuple[tuple[RecommendationRow, ...], int]:
    """Rows of ``recommendation``: what should change before what was refused, too thin, or may stay; in each the furthest first."""
    rank = fn.lit(len(_ADVICE))
    for number, advice in enumerate(_ADVICE):
        rank = fn.when(fn.col("advice") == str(advice), fn.lit(number)).otherwise(rank)
    moved = fn.abs(fn.col("target_units") - fn.coalesce("current_units", fn.lit(0)))
    return first(frame, RecommendationRow, [rank, moved.desc_nulls_last(), *map(fn.col, BUCKET)], most)  # fmt: skip


def usage_rows(frame: DataFrame, most: int) -> tuple[tuple[UsageRow, ...], int]:
    """Rows of ``usage_row``: throttled first, then the nearest to their limit."""
    severity = fn.lit(len(_STATES))
    for number, state in enumerate(_STATES):
        severity = fn.when(fn.col("state") == str(state), fn.lit(number)).otherwise(severity)
    fullness = fn.col("max_rate_units").cast("double") / fn.col("limit_units").cast("double")
    order = [severity, fn.col("throttled_ms").desc_nulls_last(), fullness.desc_nulls_last(), *map(fn.col, SERIES)]  # fmt: skip
    return first(frame, UsageRow, order, most)


def capacity_rows(frame: DataFrame, most: int) -> tuple[tuple[CapacityRow, ...], int]:
    """Rows of ``capacity_row``: the most overloaded first."""
    order = [fn.col("overload_ms").desc_nulls_last(), fn.col("coincident_ppm").desc_nulls_last()]
    names = ("cluster_id", "broker_id", "direction")
    return first(frame, CapacityRow, [*order, *map(fn.col, names)], most)


def noisy_rows(frame: DataFrame, most: int) -> tuple[tuple[NoisyRow, ...], int]:
    """Rows of ``noisy_row``: the largest excess first."""
    return first(
        frame, NoisyRow, [fn.col("excess_units").desc(), fn.col("bucket_ms"), *map(fn.col, SERIES)], most
    )  # fmt: skip


Limits = dict[tuple[str, QuotaType, Bucket, str], tuple[int | None, int | None]]
"""Limits now and then of a bucket on a broker."""


def curves(frame: DataFrame, limits: Limits, span_ms: int, most: int) -> tuple[Curve, ...]:
    """Curves from :func:`reconciler.spark.use.curves`, in the order of ``limits``.

    Args:
        frame: Spans of the buckets that ``limits`` names.
        limits: Of each.
        span_ms: Length of a span.
        most: Spans in all; more are an error.
    """
    points: dict[tuple[str, QuotaType, Bucket, str], list[Row]] = {one: [] for one in limits}
    for row in bounded.rows(frame.orderBy(*SERIES, "begin_ms"), most, "points of curves"):
        points[row.cluster_id, QuotaType(row.quota_type), bucket_of_row(row), row.broker_id].append(
            row
        )
    return tuple(
        Curve(
            cluster_id=key[0],
            quota_type=key[1],
            bucket=key[2],
            broker_id=key[3],
            points=tuple((one.begin_ms, one.mean_units, one.max_rate_units) for one in rows),
            span_ms=span_ms,
            before_units=limits[key][0],
            after_units=limits[key][1],
            throttled=tuple(one.begin_ms for one in rows if one.throttled_ms),
        )
        for key, rows in points.items()
        if rows
    )
