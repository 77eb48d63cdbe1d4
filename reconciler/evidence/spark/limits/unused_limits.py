"""Limits that apply to no client: their names were never seen, closer limits hide them, or they limit nothing.

Clients come from a list of principals or from the tags of buckets. Tags are groups: use by some client of a user does
not prove that a limit on the user applies to it. So "shadowed" is reported for principals only, and no_data for tags.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from reconciler.evidence.spark.limits.effective_limits import Batches, key_of, limit_of_tags, tags
from reconciler.evidence.spark.limits.entities import is_known
from reconciler.evidence.spark.limits.limit_index import (
    ClusterLimits,
    LimitIndex,
    entities_of_client,
    limits_of_client,
)
from reconciler.evidence.spark.tables.schemas import conforming
from reconciler.usage.samples import KEY_OF, QuotaType, ValueState
from reconciler.usage.tables import DEAD_QUOTA

LIMIT: Final = ("cluster_id", "entity_json", "quota_key")
_UNLIMITED: Final = str(ValueState.UNLIMITED)
_TALLY: Final = StructType(
    [
        *(StructField(name, StringType()) for name in LIMIT),
        StructField("met", IntegerType()),
        StructField("needed", IntegerType()),
        StructField("last_effective_ms", LongType()),
    ]
)
"""Of a limit: whether a recent client matches it (1); whether it wins for one, and limits it (1) or not (0); when it won last."""


class UnusedReason(StrEnum):
    """The reason why a limit is reported."""

    NEVER_SEEN = "never_seen"
    SHADOWED = "shadowed"
    UNLIMITED_EQUIVALENT = (
        "unlimited_equivalent"  # it wins, and without it there would be no limit either
    )
    NO_DATA = "no_data"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedClients:
    """The clients that were seen, and the quota types with telemetry."""

    # `effective_limits.CLIENT` and `last_seen_ms` (null = unknown time), each once; None = no list.
    clients: DataFrame | None
    # `effective_limits.BUCKET` and `last_seen_ms`, each once; only read without a list.
    buckets: DataFrame
    # `cluster_id` and `quota_type` with telemetry in the look-back; only read without a list.
    measured: DataFrame
    since_ms: int  # begin of the look-back; earlier clients only show when a limit applied last


def find_unused_limits(limits: DataFrame, observed: ObservedClients) -> DataFrame:
    """Return the limits that applied to no client in the look-back: rows of ``dead_quota``.

    Args:
        limits: ``quota_entry`` of one snapshot per cluster.
        observed: The clients that were seen.
    """
    index = LimitIndex(limits)
    if observed.clients is not None:
        frame, winners, hidden = observed.clients, _won_by_client, UnusedReason.SHADOWED
    else:
        frame, winners, hidden = observed.buckets, _won_by_tags, UnusedReason.NO_DATA
    tallies = frame.mapInArrow(_tallying(index, winners, observed.since_ms), _TALLY)
    by_limit = tallies.groupBy(*LIMIT).agg(
        *(fn.max(name).alias(name) for name in _TALLY.names[len(LIMIT) :])
    )
    reason = (
        fn.when(fn.col("needed") == 1, fn.lit(None).cast("string"))
        .when(fn.col("needed") == 0, fn.lit(str(UnusedReason.UNLIMITED_EQUIVALENT)))
        .when(fn.col("met") == 1, fn.lit(str(hidden)))
        .otherwise(fn.lit(str(UnusedReason.NEVER_SEEN)))
    )
    joined_limits = limits.where(is_known()).join(by_limit, list(LIMIT), "left")
    if observed.clients is None:
        measured = observed.measured.select(
            "cluster_id", key_of(fn.col("quota_type")).alias("quota_key"), fn.lit(1).alias("heard")
        )
        joined_limits = joined_limits.join(
            fn.broadcast(measured), ["cluster_id", "quota_key"], "left"
        )
        no_data = fn.lit(str(UnusedReason.NO_DATA))
        reason = fn.when(fn.col("heard").isNull(), no_data).otherwise(reason)
    unused_limits = joined_limits.withColumn("reason", reason).where(fn.col("reason").isNotNull())
    return conforming(unused_limits, DEAD_QUOTA)


class LimitWin(NamedTuple):
    """A limit that wins for a client or its tags; ``needed``: without it, another limit or none would be in effect."""

    entity_json: str
    quota_key: str
    needed: bool


_Winners = Callable[[LimitIndex, Mapping[str, Any]], Iterator[LimitWin]]


def _tallying(index: LimitIndex, winners: _Winners, since_ms: int) -> Callable[[Batches], Batches]:
    """Return the function that tallies the limits which match the clients of a batch, or win for them."""
    schema = to_arrow_schema(_TALLY)

    def tally(batches: Batches) -> Batches:
        for batch in batches:
            tallies: dict[tuple[str, str, str], list[int | None]] = {}
            for row in batch.to_pylist():
                cluster_id, last_ms = row["cluster_id"], row["last_seen_ms"]
                is_recent = last_ms is None or last_ms >= since_ms
                for text, key in _matching(index.of(cluster_id), row) if is_recent else ():
                    tallies.setdefault((cluster_id, text, key), [1, None, None])[0] = 1
                for text, key, needed in winners(index, row):
                    of_limit = tallies.setdefault((cluster_id, text, key), [None, None, None])
                    if is_recent:
                        of_limit[1] = max(of_limit[1] or 0, int(needed))
                    if last_ms is not None:
                        of_limit[2] = max(of_limit[2] or last_ms, last_ms)
            rows = [(*limit, *figures) for limit, figures in tallies.items()]
            columns = (
                pa.array([row[at] for row in rows], field.type) for at, field in enumerate(schema)
            )
            yield pa.RecordBatch.from_arrays(list(columns), schema=schema)

    return tally


def _matching(limits: ClusterLimits, row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield entity and key of each limit that the names match, whether or not closer limits exist."""
    for entity in entities_of_client(row["user"], row["client_id"], row["ip"]):
        for key, limit in limits.get(entity, {}).items():
            yield limit.source_entity, key


def _won_by_client(index: LimitIndex, row: Mapping[str, Any]) -> Iterator[LimitWin]:
    """Yield the winner of each key; it is needed if it limits the client, or hides a limit that would."""
    limits = index.of(row["cluster_id"])
    for key, steps in limits_of_client(limits, row["user"], row["client_id"], row["ip"]):
        if steps:
            needed = any(step.value_state != _UNLIMITED for step in steps)
            yield LimitWin(steps[0].source_entity, key, needed)


def _won_by_tags(index: LimitIndex, row: Mapping[str, Any]) -> Iterator[LimitWin]:
    """Yield the winner of a bucket. Whether an unlimited one hides limits is unknown: it counts as needed if any limit of the key is finite."""
    limit = limit_of_tags(index, row)
    if limit is not None:
        key = str(KEY_OF[QuotaType(row["quota_type"])])
        needed = limit.value_state != _UNLIMITED or any(
            key in values and values[key].value_state != _UNLIMITED
            for values in index.of(row["cluster_id"]).values()
        )
        yield LimitWin(limit.source_entity, key, needed)


def dated(unused_limits: DataFrame, used: DataFrame, limits: DataFrame) -> DataFrame:
    """Fill in the last day on which the tags of a limit were used, where no client is known to have had it as its limit.

    Args:
        unused_limits: The result of :func:`find_unused_limits`.
        used: ``effective_limits.BUCKET`` and ``last_seen_ms``, each once, of any age.
        limits: As for :func:`find_unused_limits`; tags of the past are resolved against current limits.
    """
    won = tags(used, limits).where(fn.col("source_entity") != "")
    last_uses = won.groupBy(
        "cluster_id",
        fn.col("source_entity").alias("entity_json"),
        key_of(fn.col("quota_type")).alias("quota_key"),
    ).agg(fn.max("last_seen_ms").alias("_used_ms"))
    joined_limits = unused_limits.join(last_uses, list(LIMIT), "left")
    last = fn.coalesce("last_effective_ms", "_used_ms")
    return conforming(joined_limits.withColumn("last_effective_ms", last), DEAD_QUOTA)
