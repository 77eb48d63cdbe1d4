"""Limits that apply to no client: their names were never seen, closer limits hide them, or they limit nothing.

Clients come from a list of principals or from the tags of buckets. Tags are groups: use by some client of a user does
not prove that a limit on the user applies to it. So "shadowed" is reported for principals only, and no_data for tags.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from reconciler.evidence.spark.limits.effective_limits import (
    CLIENT,
    beside,
    key_of,
    ladder,
    tags,
)
from reconciler.evidence.spark.limits.precedence_levels import levelled, shaped
from reconciler.evidence.spark.tables.schemas import conforming
from reconciler.quota.keys import COLUMNS
from reconciler.usage.samples import ValueState
from reconciler.usage.tables import DEAD_QUOTA

LIMIT: Final = ("cluster_id", "source_entity", "quota_key")
_UNLIMITED: Final = str(ValueState.UNLIMITED)


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
    """The clients that were seen, and the quota types with telemetry.

    Attributes:
        clients: ``effective_limits.CLIENT`` and ``last_seen_ms`` (null = unknown time), each once; ``None`` = no list.
        buckets: ``effective_limits.BUCKET`` and ``last_seen_ms``, each once; only read without a list.
        measured: ``cluster_id`` and ``quota_type`` with telemetry in the look-back; only read without a list.
        since_ms: Begin of the look-back; earlier clients only show when a limit applied last.
    """

    clients: DataFrame | None
    buckets: DataFrame
    measured: DataFrame
    since_ms: int


def dead(limits: DataFrame, observed: ObservedClients) -> DataFrame:
    """Return the limits that applied to no client in the look-back: rows of ``dead_quota``.

    Args:
        limits: ``quota_entry`` of one snapshot per cluster.
        observed: The clients that were seen.
    """
    if observed.clients is not None:
        winners, mentioned_names = (
            _of_clients(observed.clients, limits),
            _names_of_clients(observed),
        )
    else:
        winners, mentioned_names = _of_tags(observed.buckets, limits), _names_of_tags(observed)
    recent = fn.col("last_ms").isNull() | (fn.col("last_ms") >= observed.since_ms)
    wins = winners.groupBy(*LIMIT).agg(
        fn.max(fn.when(recent, fn.col("needed").cast("int"))).alias("needed"),
        fn.max("last_ms").alias("last_effective_ms"),
    )
    shaped_limits = shaped(limits).select(
        "cluster_id",
        "user",
        "client_id",
        "ip",
        "level",
        "nameless",
        "quota_key",
        "value",
        "day",
        fn.col("entity_json").alias("source_entity"),
    )
    laid = _met(shaped_limits, mentioned_names).join(wins, list(LIMIT), "left")
    reason = (
        fn.when(fn.col("needed") == 1, fn.lit(None).cast("string"))
        .when(fn.col("needed") == 0, fn.lit(str(UnusedReason.UNLIMITED_EQUIVALENT)))
        .otherwise(_unwon(by_list=observed.clients is not None))
    )
    if observed.clients is None:
        measured = fn.broadcast(
            observed.measured.select(
                "cluster_id",
                key_of(fn.col("quota_type")).alias("quota_key"),
                fn.lit(1).alias("heard"),
            )
        )
        laid = laid.join(measured, ["cluster_id", "quota_key"], "left")
        reason = fn.when(fn.col("heard").isNull(), fn.lit(str(UnusedReason.NO_DATA))).otherwise(
            reason
        )
    unused_limits = laid.withColumn("reason", reason).withColumnRenamed(
        "source_entity", "entity_json"
    )
    return conforming(unused_limits.where(fn.col("reason").isNotNull()), DEAD_QUOTA)


def dated(unused_limits: DataFrame, used: DataFrame, limits: DataFrame) -> DataFrame:
    """Fill in the last day on which the tags of a limit were used, where no client is known to have had it as its limit.

    Args:
        unused_limits: The result of :func:`dead`.
        used: ``effective_limits.BUCKET`` and ``last_seen_ms``, each once, of any age.
        limits: As for :func:`dead`; tags of the past are resolved against current limits.
    """
    last_uses = _won(used, limits).groupBy(*LIMIT).agg(fn.max("last_seen_ms").alias("_used_ms"))
    laid = unused_limits.join(
        last_uses.withColumnRenamed("source_entity", "entity_json"),
        ["cluster_id", "entity_json", "quota_key"],
        "left",
    )
    last = fn.coalesce("last_effective_ms", "_used_ms")
    return conforming(laid.withColumn("last_effective_ms", last), DEAD_QUOTA)


def _won(buckets: DataFrame, limits: DataFrame) -> DataFrame:
    """Return the buckets that have a limit, with :data:`LIMIT`."""
    won = tags(buckets, limits).where(fn.col("source_entity") != "")
    return won.withColumn("quota_key", key_of(fn.col("quota_type")))


def _unwon(*, by_list: bool) -> Column:
    """Return why a limit wins for no client."""
    hidden = UnusedReason.SHADOWED if by_list else UnusedReason.NO_DATA
    return fn.when(fn.col("met"), fn.lit(str(hidden))).otherwise(
        fn.lit(str(UnusedReason.NEVER_SEEN))
    )


def _of_clients(clients: DataFrame, limits: DataFrame) -> DataFrame:
    """Return :data:`LIMIT`, ``needed``, ``last_ms``: the winner of each client and key, and whether it changes the effective limit."""
    laid = beside(clients, limits)
    rows: list[Column] = []
    for key in map(str, COLUMNS):
        steps = ladder(key)
        first = fn.coalesce(*steps)
        limited = [fn.coalesce(step["value_state"] != _UNLIMITED, fn.lit(0) == 1) for step in steps]
        needed = limited[0]
        for condition in limited[1:]:
            needed = needed | condition
        rows.append(
            fn.when(
                first.isNotNull(),
                fn.struct(
                    fn.lit(key).alias("quota_key"),
                    first["source_entity"].alias("source_entity"),
                    needed.alias("needed"),
                ),
            )
        )
    # Few rows of few columns, after all joins.
    winners = laid.select(
        "cluster_id",
        fn.col("last_seen_ms").alias("last_ms"),
        fn.explode(fn.array_compact(fn.array(*rows))).alias("row"),
    )
    return winners.select(
        "cluster_id", "row.source_entity", "row.quota_key", "row.needed", "last_ms"
    )


def _of_tags(buckets: DataFrame, limits: DataFrame) -> DataFrame:
    """Return the same for tags; whether an unlimited winner hides finite limits is unknown, so it counts unless no finite limit of the key exists."""
    keyed = _won(buckets, limits)
    finite = levelled(limits).where(fn.col("value_state") != _UNLIMITED)
    other_limits = finite.groupBy("cluster_id", "quota_key").agg(
        fn.count(fn.lit(1)).alias("others")
    )
    laid = keyed.join(fn.broadcast(other_limits), ["cluster_id", "quota_key"], "left")
    needed = (fn.col("value_state") != _UNLIMITED) | fn.col("others").isNotNull()
    return laid.select(*LIMIT, needed.alias("needed"), fn.col("last_seen_ms").alias("last_ms"))


def _names_of_clients(observed: ObservedClients) -> DataFrame:
    if observed.clients is None:
        raise ValueError("there is no list of clients")
    recent = fn.col("last_seen_ms").isNull() | (fn.col("last_seen_ms") >= observed.since_ms)
    return observed.clients.where(recent).select(*CLIENT)


def _names_of_tags(observed: ObservedClients) -> DataFrame:
    return observed.buckets.where(fn.col("last_seen_ms") >= observed.since_ms).select(*CLIENT)


def _met(limits_with_names: DataFrame, mentioned_names: DataFrame) -> DataFrame:
    """Add ``met``: whether a client was seen that matches the limit, whether or not closer limits exist.

    Looked up by both names, by one of them, or by none; each table of names has each name once.
    """
    has_user, has_client_id = fn.col("user") != "", fn.col("client_id") != ""

    def distinct(columns: list[str], **facts: Column) -> DataFrame:
        sums = [fn.max(fact.cast("int")).alias(name) for name, fact in facts.items()]
        return mentioned_names.groupBy("cluster_id", *columns).agg(sums[0], *sums[1:])

    marker = fn.lit(1)
    pairs = distinct(["user", "client_id"], pair=marker)
    users = distinct(["user"], user_there=marker, user_with_id=has_client_id)
    ids = distinct(["client_id"], id_there=marker, id_with_user=has_user)
    ips = distinct(["ip"], ip_there=marker)
    anyone = distinct(
        [],
        both=has_user & has_client_id,
        any_user=has_user,
        any_id=has_client_id,
        any_ip=fn.col("ip") != "",
    )
    laid = (
        limits_with_names.join(pairs, ["cluster_id", "user", "client_id"], "left")
        .join(users, ["cluster_id", "user"], "left")
        .join(ids, ["cluster_id", "client_id"], "left")
        .join(ips, ["cluster_id", "ip"], "left")
        .join(fn.broadcast(anyone), ["cluster_id"], "left")
    )
    facts = (
        "pair",
        "user_with_id",
        "user_there",
        "id_with_user",
        "both",
        "any_user",
        "id_there",
        "any_id",
        "ip_there",
        "any_ip",
    )
    cases = [fn.when(fn.col("level") == at, fn.col(name) == 1) for at, name in enumerate(facts, 1)]
    by_level = fn.coalesce(*cases, fn.lit(0) == 1)
    return laid.withColumn("met", by_level & ~fn.col("nameless"))
