"""The changes of each limit between snapshots: one row per change, with its cause from the audit log and from documents."""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from reconciler.evidence.spark.limits.entities import normal
from reconciler.evidence.spark.tables.schemas import conforming
from reconciler.evidence.spark.usage.integer_columns import day
from reconciler.usage.samples import DAY_MS
from reconciler.usage.tables import QUOTA_CHANGE

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


def limit_steps(entries: DataFrame, snapshots: DataFrame) -> DataFrame:
    """Return each difference of a limit between a snapshot and the one before it. One exchange of the entries.

    Snapshots are points in time; changes between two of them are unknown.

    Args:
        entries: ``quota_entry`` of all snapshots.
        snapshots: ``snapshot`` of the same; entries of other snapshots are ignored.

    Returns:
        :data:`PAIR`; ``from_ms``, the snapshot that first has it, and ``from_after_ms``, the one before (0 = none); ``to_ms``,
        at which the next difference begins; ``before`` and ``after``, null without a limit.
    """
    dated_entries = entries.drop("observed_at_ms").join(
        fn.broadcast(_with_neighbours(snapshots)), ["cluster_id", "snapshot_id"]
    )
    along = Window.partitionBy(*PAIR).orderBy("number")
    last_number, last_value, last_ms, ended_ms = (
        fn.lag(name).over(along) for name in ("number", "value", "observed_at_ms", "next_ms")
    )
    continues = fn.coalesce(fn.col("number") - last_number == 1, fn.expr("false"))
    is_last = fn.lead("number").over(along).isNull()
    value, none = fn.col("value"), fn.lit(None).cast("double")
    change = _step(
        fn.col("observed_at_ms"), fn.col("before_ms"), fn.when(continues, last_value), value
    )
    steps = fn.array_compact(
        fn.array(
            fn.when(
                last_number.isNotNull() & ~continues, _step(ended_ms, last_ms, last_value, none)
            ),
            fn.when(~(continues & (value == last_value)), change),
            fn.when(
                is_last & fn.col("next_ms").isNotNull(),
                _step(fn.col("next_ms"), fn.col("observed_at_ms"), value, none),
            ),
        )
    )
    # Spark allows no window expression inside explode.
    with_steps = dated_entries.withColumn("steps", steps).select(*PAIR, "steps")
    rows = with_steps.select(*PAIR, fn.explode("steps").alias("step")).select(*PAIR, "step.*")
    by_time = Window.partitionBy(*PAIR).orderBy("from_ms")
    return rows.withColumn("to_ms", fn.lead("from_ms").over(by_time))


def _step(from_ms: Column, from_after_ms: Column, before: Column, after: Column) -> Column:
    return fn.struct(
        from_ms.alias("from_ms"),
        from_after_ms.alias("from_after_ms"),
        before.alias("before"),
        after.alias("after"),
    )


def changes(steps: DataFrame, log: DataFrame) -> DataFrame:
    """Return one row per change of a limit, including removals: rows of ``quota_change``.

    In order of time, the rows reproduce every snapshot: a limit is ``after`` from ``from_ms`` to ``to_ms``.

    Args:
        steps: The result of :func:`limit_steps`.
        log: ``apply_log``.
    """
    explained_steps = _with_audit_entry(steps, log)
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


def unapplied_changes(steps: DataFrame, desired: DataFrame, last_snapshots: DataFrame) -> DataFrame:
    """Return limits that documents declare and the last snapshot lacks: rows of ``quota_change``, not applied yet.

    Args:
        steps: The result of :func:`limit_steps`.
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
    live = steps.where("to_ms is null and after is not null").select(
        *PAIR, fn.col("after").alias("before")
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
