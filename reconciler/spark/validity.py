"""Since when and until when each limit was seen, and which limit a sample was held to at its time.

Looks are points; between two of them nobody knows. So a limit is valid from the look that first saw it, and samples
between the look before and that one are in doubt. Only a complete look that misses a limit ends it.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from reconciler.spark.ladder import CLIENT_SIDES, IP_SIDES, levelled
from reconciler.spark.resolve import BUCKET, LEVELS_OF_KIND, key_of
from reconciler.spark.schemas import conforming
from reconciler.usage.tables import QUOTA_VALIDITY

_PAIR: Final = ("cluster_id", "entity_json", "quota_key")
_FOUND: Final = ("value", "quota_units", "value_state", "level", "source_entity")

HELD: Final = ("from_ms", "doubt_ms", "to_ms", *_FOUND)
"""What :func:`in_force` adds to a bucket; in doubt from ``doubt_ms`` (exclusive) to ``to_ms``, null = never."""


def quota_validity(entries: DataFrame, snapshots: DataFrame) -> DataFrame:
    """Since when and until when, from every look: rows of ``quota_validity``. One exchange and one sort of the entries.

    Args:
        entries: ``quota_entry`` of all looks.
        snapshots: ``snapshot`` of the same.
    """
    seen = entries.drop("observed_at_ms").join(
        fn.broadcast(_looks(snapshots)), ["cluster_id", "snapshot_id"]
    )
    along = Window.partitionBy(*_PAIR).orderBy("observed_at_ms", "snapshot_id")
    whole = along.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    before = fn.lag("observed_at_ms").over(along)
    missed = (
        fn.col("whole_looks") - fn.col("complete").cast("int") - fn.lag("whole_looks").over(along)
    )
    same = fn.col("value") == fn.lag("value").over(along)
    marked = (
        seen.withColumn("before_ms", before)
        .withColumn("before_next_ms", fn.lag("next_whole_ms").over(along))
        .withColumn("missed", missed)
        .withColumn("begins", fn.coalesce((missed > 0) | ~same, before.isNull()))
        .withColumn("last_ms", fn.last("observed_at_ms").over(whole))
        .withColumn("last_next_ms", fn.last("next_whole_ms").over(whole))
        .where("begins")
    )
    next_from = fn.lead("observed_at_ms").over(along)
    next_missed = fn.lead("missed").over(along)
    ended = (
        fn.when(next_from.isNull(), fn.col("last_next_ms"))
        .when(next_missed == 0, next_from)
        .otherwise(fn.lead("before_next_ms").over(along))
    )
    last = fn.coalesce(fn.lead("before_ms").over(along), fn.col("last_ms"))
    found = (
        marked.withColumn("valid_to_ms", ended)
        .withColumn("valid_to_after_ms", fn.when(ended.isNotNull(), last))
        .withColumn(
            "valid_from_after_ms",
            fn.when(fn.col("missed") == 0, fn.col("before_ms")).otherwise(
                fn.coalesce("before_whole_ms", fn.lit(0))
            ),
        )
        .withColumnRenamed("observed_at_ms", "valid_from_ms")
    )
    return conforming(found, QUOTA_VALIDITY)


def _looks(snapshots: DataFrame) -> DataFrame:
    """Each look with how many complete ones there were, and the complete ones around it. A few rows per cluster and day."""
    along = Window.partitionBy("cluster_id").orderBy("observed_at_ms", "snapshot_id")
    until = along.rowsBetween(Window.unboundedPreceding, 0)
    earlier = along.rowsBetween(Window.unboundedPreceding, -1)
    later = along.rowsBetween(1, Window.unboundedFollowing)
    whole_ms = fn.when(fn.col("complete"), fn.col("observed_at_ms"))
    return snapshots.select(
        "cluster_id", "snapshot_id", "observed_at_ms", "complete",
        fn.sum(fn.col("complete").cast("int")).over(until).alias("whole_looks"),
        fn.max(whole_ms).over(earlier).alias("before_whole_ms"),
        fn.min(whole_ms).over(later).alias("next_whole_ms"),
    )  # fmt: skip


def in_force(buckets: DataFrame, validity: DataFrame, snapshots: DataFrame) -> DataFrame:
    """Which limit each bucket was held to, span by span since the first complete look: ``BUCKET`` and :data:`HELD`.

    Args:
        buckets: ``resolve.BUCKET``, each bucket once.
        validity: ``quota_validity``.
        snapshots: ``snapshot``: before the first complete look nothing is known.
    """
    first = snapshots.where("complete").groupBy("cluster_id").agg(fn.min("observed_at_ms").alias("first_ms"))  # fmt: skip
    asked = buckets.select(*BUCKET, key_of(fn.col("quota_type")).alias("quota_key"))
    limits = levelled(validity)
    met: DataFrame | None = None
    for side in (*CLIENT_SIDES, *IP_SIDES):
        names = ["cluster_id", "quota_key", *side.names]
        own = limits.where(fn.col("level").isin(list(side.levels))).select(
            *names, "level", "valid_from_ms", "valid_from_after_ms", "valid_to_ms", "valid_to_after_ms",
            "value", "quota_units", "value_state", fn.col("entity_json").alias("source_entity"),
        )  # fmt: skip
        found = asked.join(own, names).where(_stands_for()).select(
            *BUCKET, fn.struct("level", *[name for name in own.columns if name not in (*names, "level")]).alias("limit"),
        )  # fmt: skip
        met = found if met is None else met.unionAll(found)
    if met is None:
        raise ValueError("no levels")
    gathered = met.groupBy(*BUCKET).agg(fn.collect_list("limit").alias("limits"))
    laid = (
        buckets.select(*BUCKET)
        .join(gathered, list(BUCKET), "left")
        .join(fn.broadcast(first), ["cluster_id"])
    )
    spans = laid.withColumn("limits", fn.coalesce("limits", fn.array().cast(gathered.schema["limits"].dataType)))  # fmt: skip
    return _told(spans)


def _told(laid: DataFrame) -> DataFrame:
    """Spans between all moments at which any limit of the bucket begins or ends; few, so arrays will do."""
    limits = fn.col("limits")
    begins = fn.transform(limits, lambda one: one["valid_from_ms"])
    ends = fn.array_compact(fn.transform(limits, lambda one: one["valid_to_ms"]))
    edges = fn.array_sort(
        fn.array_distinct(
            fn.filter(
                fn.concat(fn.array("first_ms"), begins, ends), lambda at: at >= fn.col("first_ms")
            )
        )
    )
    with_edges = laid.withColumn("edges", edges)

    def span(at: Column, number: Column) -> Column:
        held = fn.filter(
            fn.col("limits"),
            lambda one: (
                (one["valid_from_ms"] <= at)
                & (one["valid_to_ms"].isNull() | (at < one["valid_to_ms"]))
            ),
        )
        touched = fn.array_compact(
            fn.transform(
                fn.col("limits"),
                lambda one: fn.when(
                    one["valid_from_ms"] == at, one["valid_from_after_ms"]
                ).when(one["valid_to_ms"] == at, one["valid_to_after_ms"]),
            )
        )  # fmt: skip
        return fn.struct(
            at.alias("from_ms"),
            fn.get(fn.col("edges"), number + fn.lit(1)).alias("to_ms"),
            fn.array_min(held).alias("won"),
            fn.array_min(touched).alias("after_ms"),
        )

    spans = with_edges.select(*BUCKET, fn.transform("edges", span).alias("spans"))
    return spans.select(*BUCKET, fn.explode(_doubts())).select(*BUCKET, "col.*")


def _doubts() -> Column:
    """Each span with the moment from which the next one may already hold; none where the next has the same limit."""

    def told(one: Column, number: Column) -> Column:
        after = fn.get(fn.col("spans"), number + fn.lit(1))
        alike = one["won"]["value"].eqNullSafe(after["won"]["value"]) & one["won"][
            "source_entity"
        ].eqNullSafe(after["won"]["source_entity"])
        return fn.struct(
            one["from_ms"].alias("from_ms"),
            fn.when(~alike & one["to_ms"].isNotNull(), after["after_ms"]).alias("doubt_ms"),
            one["to_ms"].alias("to_ms"),
            *(one["won"][name].alias(name) for name in _FOUND if name != "source_entity"),
            fn.coalesce(one["won"]["source_entity"], fn.lit("")).alias("source_entity"),
        )

    return fn.transform("spans", told)


def effective(samples: DataFrame, spans: DataFrame) -> DataFrame:
    """Samples with the limit of their time: the columns of :data:`HELD` but its times, and ``known``.

    ``known`` is false between two looks that saw different limits, and before the first look. Spans are few: they are
    sent to every machine, and a sample meets at most one.

    Args:
        samples: ``usage_sample`` or anything with ``BUCKET`` and ``ts_ms``.
        spans: :func:`in_force`.
    """
    span = fn.broadcast(
        spans.select(*(fn.col(name).alias(f"span_{name}") for name in (*BUCKET, *HELD)))
    )
    on = [fn.col(name) == fn.col(f"span_{name}") for name in BUCKET]
    on.append(fn.col("ts_ms") >= fn.col("span_from_ms"))
    on.append(fn.col("span_to_ms").isNull() | (fn.col("ts_ms") < fn.col("span_to_ms")))
    joined = samples.join(span, on, "left")
    return _with_limit(joined, samples.columns, {name: fn.col(f"span_{name}") for name in HELD})


def effective_by_window(samples: DataFrame, spans: DataFrame) -> DataFrame:
    """The same for histories that are too long to be sent around: spans and samples in one sorted row."""
    marks = spans.select(
        *BUCKET, fn.col("from_ms").alias("ts_ms"), fn.lit(0).alias("place"), fn.struct(*HELD).alias("span")
    )  # fmt: skip
    rows = samples.select(
        *BUCKET, "ts_ms", fn.lit(1).alias("place"), fn.struct(*samples.columns).alias("sample")
    )
    along = Window.partitionBy(*BUCKET).orderBy("ts_ms", "place")
    last = fn.last("span", ignorenulls=True).over(along.rowsBetween(Window.unboundedPreceding, 0))
    found = marks.unionByName(rows, allowMissingColumns=True).withColumn("span", last).where("place = 1")  # fmt: skip
    flat = found.select("sample.*", "span")
    return _with_limit(flat, samples.columns, {name: fn.col(f"span.{name}") for name in HELD})


def _with_limit(joined: DataFrame, own: list[str], span: dict[str, Column]) -> DataFrame:
    doubted = fn.coalesce(fn.col("ts_ms") > span["doubt_ms"], fn.lit(0) == 1)
    known = span["from_ms"].isNotNull() & ~doubted
    return joined.select(
        *(fn.col(f"`{name}`") for name in own),
        *(fn.when(known, span[name]).alias(name) for name in _FOUND if name != "source_entity"),
        fn.when(known, span["source_entity"]).otherwise(fn.lit("")).alias("source_entity"),
        known.alias("known"),
    )


def _stands_for() -> Column:
    """Whether tags of this kind can stand for the level (``usage.tags.entities_of``)."""
    cases = [
        fn.when(fn.col("group_kind") == str(kind), fn.col("level").isin(list(levels)))
        for kind, levels in LEVELS_OF_KIND.items()
    ]
    return fn.coalesce(*cases, fn.lit(0) == 1)
