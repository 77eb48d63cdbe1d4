"""The periods in which each limit was seen, and its changes: one row per change, with its cause from the audit log and from documents."""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from reconciler.evidence.spark.limits.entities import normal
from reconciler.evidence.spark.tables.schemas import conforming
from reconciler.evidence.spark.usage.integer_columns import day
from reconciler.usage.samples import DAY_MS
from reconciler.usage.tables import QUOTA_CHANGE, QUOTA_VALIDITY

PAIR: Final = ("cluster_id", "entity_json", "quota_key")

BY_US: Final = "applied-by-us"
EXTERNAL: Final = "drift-external"
AHEAD: Final = "manifest-ahead"
FLAPPING: Final = "flapping"
FIRST: Final = "first-seen"

FLAPS: Final = 3
"""This number of changes within 24 hours means that several writers overwrite each other."""

SKEW_MS: Final = 60_000
"""Maximum difference between the clocks of the writer and of the snapshot."""

_WROTE: Final = ("APPLIED", "UNKNOWN")
"""Outcomes after which the value may be live; an UNKNOWN write may have been applied."""

_INTENDED: Final = "INTENDED"
"""Written before a change is sent: it may have been applied, unless a later entry has its outcome."""


def quota_validity(entries: DataFrame, snapshots: DataFrame) -> DataFrame:
    """Return the period of each value of a limit: rows of ``quota_validity``. One exchange and one sort of the entries.

    Snapshots are points in time; changes between two of them are unknown. So a limit is valid from the snapshot that first
    has it, and the time since the snapshot before is uncertain. A snapshot without the limit ends it.

    Args:
        entries: ``quota_entry`` of all snapshots.
        snapshots: ``snapshot`` of the same; entries of other snapshots are ignored.
    """
    dated_entries = entries.drop("observed_at_ms").join(
        fn.broadcast(_with_neighbours(snapshots)), ["cluster_id", "snapshot_id"]
    )
    along = Window.partitionBy(*PAIR).orderBy("number")
    limit_window = along.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    before = fn.lag("number").over(along)
    is_same_value = fn.col("value") == fn.lag("value").over(along)
    continues = (fn.col("number") - before == 1) & is_same_value
    begun = (
        dated_entries.withColumn("ended_after_ms", fn.lag("observed_at_ms").over(along))
        .withColumn("ended_ms", fn.lag("next_ms").over(along))
        .withColumn("begins", ~fn.coalesce(continues, before.isNotNull()))
        .withColumn("last_ms", fn.last("observed_at_ms").over(limit_window))
        .withColumn("last_next_ms", fn.last("next_ms").over(limit_window))
        .where("begins")
    )
    ended = fn.coalesce(fn.lead("ended_ms").over(along), fn.col("last_next_ms"))
    last = fn.coalesce(fn.lead("ended_after_ms").over(along), fn.col("last_ms"))
    validity_periods = (
        begun.withColumn("valid_to_ms", ended)
        .withColumn("valid_to_after_ms", fn.when(ended.isNotNull(), last))
        .withColumnRenamed("observed_at_ms", "valid_from_ms")
        .withColumnRenamed("before_ms", "valid_from_after_ms")
    )
    return conforming(validity_periods, QUOTA_VALIDITY)


def changes(validity: DataFrame, log: DataFrame) -> DataFrame:
    """Return one row per change of a limit, including removals: rows of ``quota_change``.

    In order of time, the rows reproduce every snapshot: a limit is ``after`` from ``from_ms`` to ``to_ms``.

    Args:
        validity: ``quota_validity``.
        log: ``apply_log``.
    """
    explained_steps = _with_audit_entry(_steps(validity), log)
    window = Window.partitionBy(*PAIR).orderBy("from_ms")
    is_first = fn.col("from_after_ms") == 0
    # The first snapshot of a cluster shows existing limits; it is not a change.
    change_number = fn.when(is_first, fn.lit(0)).otherwise(fn.lit(1))
    near = fn.sum(change_number).over(window.rangeBetween(-(DAY_MS - 1), 0))
    flaps = fn.max(fn.col("near")).over(window.rangeBetween(0, DAY_MS - 1)) >= FLAPS
    cause = (
        fn.when(is_first, fn.lit(FIRST))
        .when(flaps, fn.lit(FLAPPING))
        .when(fn.col("written").isNotNull(), fn.lit(BY_US))
        .otherwise(fn.lit(EXTERNAL))
    )
    causes = explained_steps.withColumn("near", near).withColumn("cause", cause)
    return conforming(
        causes.select(
            *PAIR,
            "from_ms",
            "from_after_ms",
            "to_ms",
            "before",
            "after",
            "cause",
            fn.coalesce("written.commit", fn.lit("")).alias("commit"),
            fn.coalesce("written.writer", fn.lit("")).alias("writer"),
            day(fn.col("from_ms")).alias("day"),
        ),
        QUOTA_CHANGE,
    )


def unapplied_changes(
    validity: DataFrame, desired: DataFrame, last_snapshots: DataFrame
) -> DataFrame:
    """Return limits that documents declare and the last snapshot lacks: rows of ``quota_change``, not applied yet.

    Args:
        validity: ``quota_validity``.
        desired: ``desired_entry``; pairs with claims of several documents are skipped.
        last_snapshots: ``cluster_id`` and ``look_ms``, the last complete snapshot of each cluster.
    """
    claims = (
        desired.where("not halted")
        .groupBy(*PAIR)
        .agg(
            fn.max("value").alias("after"),
            fn.max("document").alias("writer"),
            fn.count(fn.lit(1)).alias("claims"),
        )
        .where("claims = 1")
    )
    live = validity.where(fn.col("valid_to_ms").isNull()).select(
        *PAIR, fn.col("value").alias("before")
    )
    pending_changes = claims.join(live, list(PAIR), "left").join(
        fn.broadcast(last_snapshots), ["cluster_id"]
    )
    differs = ~fn.coalesce(normal("before") == normal("after"), fn.lit(0) == 1)
    return conforming(
        pending_changes.where(differs).select(
            *PAIR,
            fn.col("look_ms").alias("from_ms"),
            fn.col("look_ms").alias("from_after_ms"),
            fn.lit(None).cast("bigint").alias("to_ms"),
            "before",
            "after",
            fn.lit(AHEAD).alias("cause"),
            fn.lit("").alias("commit"),
            "writer",
            day(fn.col("look_ms")).alias("day"),
        ),
        QUOTA_CHANGE,
    )


def _with_neighbours(snapshots: DataFrame) -> DataFrame:
    """Add to each snapshot its number and the times of the ones before (0 = none) and after. A few rows per cluster and day."""
    along = Window.partitionBy("cluster_id").orderBy("observed_at_ms", "snapshot_id")
    return snapshots.select(
        "cluster_id",
        "snapshot_id",
        "observed_at_ms",
        fn.row_number().over(along).alias("number"),
        fn.lag("observed_at_ms", 1, 0).over(along).alias("before_ms"),
        fn.lead("observed_at_ms").over(along).alias("next_ms"),
    )


def _steps(validity: DataFrame) -> DataFrame:
    """Convert periods to changes: a period begins with a change, and ends with a removal unless another begins then."""
    window = Window.partitionBy(*PAIR).orderBy("valid_from_ms")
    last_to, last_value = (fn.lag(name).over(window) for name in ("valid_to_ms", "value"))
    next_from = fn.lead("valid_from_ms").over(window)
    none = fn.lit(None).cast("double")
    change = fn.struct(
        fn.col("valid_from_ms").alias("from_ms"),
        fn.col("valid_from_after_ms").alias("from_after_ms"),
        fn.col("valid_to_ms").alias("to_ms"),
        fn.when(last_to == fn.col("valid_from_ms"), last_value).alias("before"),
        fn.col("value").alias("after"),
    )
    removal = fn.struct(
        fn.col("valid_to_ms").alias("from_ms"),
        fn.col("valid_to_after_ms").alias("from_after_ms"),
        next_from.alias("to_ms"),
        fn.col("value").alias("before"),
        none.alias("after"),
    )
    removed = fn.col("valid_to_ms").isNotNull() & fn.coalesce(
        next_from > fn.col("valid_to_ms"), fn.lit(1) == 1
    )
    rows = fn.array_compact(fn.array(change, fn.when(removed, removal)))
    # Spark allows no window expression inside explode.
    with_steps = validity.select(*PAIR, rows.alias("steps"))
    return with_steps.select(*PAIR, fn.explode("steps").alias("step")).select(*PAIR, "step.*")


def _with_audit_entry(steps: DataFrame, log: DataFrame) -> DataFrame:
    """Add ``written``: the last audit-log entry that explains the change; null = no apply of kquota wrote it."""
    window = Window.partitionBy(*PAIR, "after").orderBy("applied_at_ms")
    next_outcome = fn.coalesce(fn.lead("outcome").over(window), fn.lit(_INTENDED))
    counts = fn.col("outcome").isin(*_WROTE) | (
        (fn.col("outcome") == _INTENDED) & next_outcome.isin(*_WROTE, _INTENDED)
    )
    our_writes = (
        log.withColumn("counts", counts)
        .where("counts")
        .select(*PAIR, fn.col("applied_at_ms"), fn.col("after").alias("wrote"), "commit", "writer")
    )
    candidates = steps.join(our_writes, list(PAIR)).where(
        (fn.col("applied_at_ms") > fn.col("from_after_ms") - SKEW_MS)
        & (fn.col("applied_at_ms") <= fn.col("from_ms") + SKEW_MS)
        & normal("after").eqNullSafe(normal("wrote"))
    )
    latest = candidates.groupBy(*PAIR, "from_ms").agg(
        fn.max(fn.struct("applied_at_ms", "commit", "writer")).alias("written")
    )
    return steps.join(latest, [*PAIR, "from_ms"], "left")
