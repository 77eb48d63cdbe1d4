"""From rows of results to the bounded rows that people see: the first so many in a fixed order, and how many there are more."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final, TypeVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from reconciler.errors import UsageError
from reconciler.lake.lake import Lake
from reconciler.spark import bounded, reading
from reconciler.spark.span import Span
from reconciler.usage.tables import SNAPSHOT

R = TypeVar("R")

MOST_CLUSTERS: Final = 10_000


def first(
    rows: DataFrame, of: type[R], most: int, order: tuple[Column | str, ...]
) -> tuple[tuple[R, ...], int]:
    """The first rows as values, and how many are left out.

    Args:
        rows: With the columns of ``of``, kept: they are read twice.
        of: A dataclass of ``usage.fleet``.
        most: How many.
        order: What comes first.
    """
    names = [one.name for one in fields(of)]  # type: ignore[arg-type]  # the callers hand in dataclasses
    told = bounded.rows(rows.select(*names).orderBy(*order).limit(most), most, "rows")
    total = rows.count() if len(told) == most else len(told)
    return tuple(of(**row.asDict()) for row in told), total - len(told)


def sums(frame: DataFrame) -> dict[str, Mapping[str, Any]]:
    """A row per cluster as values, by cluster id."""
    rows = bounded.rows(frame, MOST_CLUSTERS, "clusters")
    return {row["cluster_id"]: row.asDict() for row in rows}


def counted(rows: DataFrame, by: str) -> dict[str, dict[str, int]]:
    """How many rows of each cluster have which word in a column of few words."""
    found: dict[str, dict[str, int]] = {}
    grouped = rows.groupBy("cluster_id", by).agg(fn.count(fn.lit(1)).alias("amount"))
    for row in bounded.rows(grouped, 20 * MOST_CLUSTERS, "sums"):
        found.setdefault(row["cluster_id"], {})[row[by]] = row["amount"]
    return found


def looks(snapshots: DataFrame, span: Span) -> dict[str, int]:
    """When each cluster was last looked at completely before the end of a window."""
    before = snapshots.where(fn.col("complete") & (fn.col("observed_at_ms") < span.to_ms))
    last = before.groupBy("cluster_id").agg(fn.max("observed_at_ms").alias("look_ms"))
    return {name: row["look_ms"] for name, row in sums(last).items()}


def looked_at(
    looks_ms: Mapping[str, int], asked: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The clusters that can be spoken of, and a sentence for each that cannot.

    Raises:
        UsageError: There is none.
    """
    names = tuple(sorted(looks_ms.keys() & set(asked or looks_ms)))
    if not names:
        raise UsageError(
            "the lake has no complete look at any of these clusters",
            hint="kquota snapshot --taken-at --out prod.json, then kquota spark ingest --snapshot prod.json",
        )
    missing = sorted(set(asked) - set(names))
    return names, tuple(
        f"{one}: no complete look in the lake, so nothing is said of it" for one in missing
    )


def snapshots_of(spark: Any, lake: Lake, clusters: tuple[str, ...], span: Span) -> DataFrame:  # noqa: ANN401 - a session of either kind
    """All looks up to the end of a window."""
    return reading.frame(spark, lake, SNAPSHOT, clusters or None, to_day=span.last_day)
