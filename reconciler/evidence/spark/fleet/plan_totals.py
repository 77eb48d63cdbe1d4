"""Sums of a fleet plan, one row per cluster: the counts that guards and reports use. Bounded by the number of clusters."""

from functools import partial, reduce
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from reconciler.evidence.spark.fleet.plan import CHANGE, IN_SYNC
from reconciler.evidence.spark.fleet.plan_inputs import PlanFrames
from reconciler.quota.policy import Cause

_OVERRIDES: Final = (str(Cause.OVERRIDE), str(Cause.OVERRIDE_EXPIRED))

TOTALS: Final[tuple[str, ...]] = (
    "documents",
    "desired_pairs",
    "owned_pairs",
    "in_sync",
    "conflicts",
    "removals",
    "on_defaults",
)
"""The columns of :func:`totals` besides ``cluster_id``."""


def verdict_counts(decided: DataFrame) -> DataFrame:
    """Return the number of pairs by cluster and verdict: ``cluster_id``, ``kind``, ``cause``, ``action``, ``ignored``, ``pairs``."""
    return (
        decided.where(fn.col("kind") != IN_SYNC)
        .groupBy("cluster_id", "kind", "cause", "action", "ignored")
        .agg(fn.sum("pairs").alias("pairs"))
    )


def totals(sides: PlanFrames, pairs: DataFrame, decided: DataFrame) -> DataFrame:
    """Return the counts of plan and guards: ``cluster_id`` and :data:`TOTALS`, for clusters with anything to count.

    Pairs in sync are the declared pairs that are not among the differences, plus those that ``quota.planner.comparison.compare`` found in sync.

    Args:
        sides: The inputs of the plan.
        pairs: The result of ``plan.differences``.
        decided: The result of ``plan.decided``.
    """

    def counted(frame: DataFrame, **columns: str) -> DataFrame:
        sums = [fn.sum(fn.expr(text).cast("bigint")).alias(name) for name, text in columns.items()]
        return frame.groupBy("cluster_id").agg(sums[0], *sums[1:])

    planned = (fn.col("kind") == CHANGE) & ~fn.col("cause").isin(*_OVERRIDES)
    counts = (
        counted(sides.documents, documents="1"),
        counted(sides.desired.where("not halted"), all_claims="1"),
        counted(sides.owned, owned_pairs="if(applied is null, 0, 1)"),
        counted(
            pairs,
            conflicts="if(claims > 1, 1, 0)",
            doubted_claims="if(claims > 1, claims, 0)",
            different="if(claims = 1, 1, 0)",
        ),
        counted(
            decided.withColumn("planned", planned),
            back_in_sync=f"if(kind = '{IN_SYNC}', pairs, 0)",
            removals="if(planned and action = 'remove', 1, 0)",
            on_defaults="if(planned and on_default, 1, 0)",
        ),
    )
    union = reduce(partial(DataFrame.unionByName, allowMissingColumns=True), counts)
    sums = union.groupBy("cluster_id").agg(
        *(fn.coalesce(fn.sum(name), fn.lit(0)).alias(name) for name in union.columns[1:])
    )
    desired = fn.col("all_claims") - fn.col("doubted_claims")
    in_sync = desired - fn.col("different") + fn.col("back_in_sync")
    columns = {"desired_pairs": desired, "in_sync": in_sync}
    return sums.select(
        "cluster_id", *(columns.get(name, fn.col(name)).alias(name) for name in TOTALS)
    )
