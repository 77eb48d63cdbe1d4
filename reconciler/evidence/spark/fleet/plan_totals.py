"""Sums of a fleet plan, a row per cluster: what guards count and what a report says. Bounded by the number of clusters."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from reconciler.evidence.spark.fleet.plan_inputs import PlanFrames
from reconciler.quota.policy import Cause

_OVERRIDES: Final = (str(Cause.OVERRIDE), str(Cause.OVERRIDE_EXPIRED))

TOTALS: Final = (
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
    """How many pairs of each cluster got which verdict: ``cluster_id``, ``kind``, ``cause``, ``action``, ``ignored``, ``pairs``."""
    return (
        decided.where(fn.col("kind") != "none")
        .groupBy("cluster_id", "kind", "cause", "action", "ignored")
        .agg(fn.count(fn.lit(1)).alias("pairs"))
    )


def totals(sides: PlanFrames, pairs: DataFrame, decided: DataFrame) -> DataFrame:
    """What ``quota.change.Plan`` and the guards count, per cluster: ``cluster_id`` and :data:`TOTALS`.

    Pairs in sync were never laid out: they are the declared ones that are not among the differences.

    Args:
        sides: What was compared.
        pairs: ``plan.differences``.
        decided: ``plan.decided``.
    """

    def counted(frame: DataFrame, **columns: str) -> DataFrame:
        sums = [fn.sum(fn.expr(text).cast("bigint")).alias(name) for name, text in columns.items()]
        return frame.groupBy("cluster_id").agg(sums[0], *sums[1:])

    documents = counted(sides.documents, documents="1")
    claims = counted(sides.desired.where("not halted"), all_claims="1")
    owned = counted(sides.owned, owned_pairs="if(applied is null, 0, 1)")
    doubted = counted(
        pairs,
        conflicts="if(claims > 1, 1, 0)",
        doubted_claims="if(claims > 1, claims, 0)",
        different="if(claims = 1, 1, 0)",
    )
    changes = counted(
        decided.withColumn(
            "planned", (fn.col("kind") == "change") & ~fn.col("cause").isin(*_OVERRIDES)
        ),
        back_in_sync="if(in_sync, 1, 0)",
        removals="if(planned and action = 'remove', 1, 0)",
        on_defaults="if(planned and (slots.user_kind = 'default' or slots.client_kind = 'default'"
        " or slots.ip_kind = 'default'), 1, 0)",
    )
    joined = sides.orders.select("cluster_id")
    for counts_frame in (documents, claims, owned, doubted, changes):
        joined = joined.join(fn.broadcast(counts_frame), ["cluster_id"], "left")
    all_totals = joined.na.fill(0)
    desired = fn.col("all_claims") - fn.col("doubted_claims")
    return all_totals.select(
        "cluster_id",
        "documents",
        desired.alias("desired_pairs"),
        "owned_pairs",
        (desired - fn.col("different") + fn.col("back_in_sync")).alias("in_sync"),
        "conflicts",
        "removals",
        "on_defaults",
    )
