"""Effective limits of clients (all keys, ten levels) and of the tags of buckets, with native Spark expressions for whole fleets.

Equal, row by row, to ``quota.precedence.resolve`` and ``usage.tags.limit_of``. Limits are those of one snapshot per
cluster (:mod:`reconciler.evidence.spark.tables.latest_snapshots`).
"""

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from reconciler.evidence.spark.limits.precedence_levels import (
    CLIENT_SIDES,
    IP_SIDES,
    LevelGroup,
    column,
    laid_out,
    levelled,
    names_with,
)
from reconciler.evidence.spark.tables.schemas import conforming
from reconciler.quota.keys import COLUMNS, RULES
from reconciler.usage.samples import KEY_OF
from reconciler.usage.tables import EFFECTIVE_QUOTA
from reconciler.usage.tags import GroupKind

CLIENT: Final = ("cluster_id", "user", "client_id", "ip")
"""The columns that identify a client; absent names are ""."""

BUCKET: Final = ("cluster_id", "quota_type", "group_kind", "user", "client_id", "ip")
"""The columns that identify a bucket."""

_OF_CLIENTS: Final = tuple(str(key) for key in COLUMNS if not RULES[key].on_ip)
_OF_IPS: Final = tuple(str(key) for key in COLUMNS if RULES[key].on_ip)
_NAMES_OF_KIND: Final = {
    GroupKind.USER: {"user"},
    GroupKind.CLIENT: {"client_id"},
    GroupKind.PAIR: {"user", "client_id"},
    GroupKind.IP: {"ip"},
}
_DEFAULTS: Final = names_with("default")
"""A default applies only to clients that have such a name: an empty client id matches no level that has one."""

LEVELS_OF_KIND: Final = {
    kind: tuple(
        number
        for number, named in names_with("named").items()
        if {*named, *_DEFAULTS[number]} == names
    )
    for kind, names in _NAMES_OF_KIND.items()
}
"""The levels that tags of each kind can match (``usage.tags.entities_of``)."""


def principals(clients: DataFrame, limits: DataFrame) -> DataFrame:
    """Return the limit of each client, per key: rows of ``effective_quota``.

    Keys of users and client ids get a row if a user or a client id is present, the connection rate if an ip is.

    Args:
        clients: :data:`CLIENT` and ``day``, each client once.
        limits: ``quota_entry`` of one snapshot per cluster; two values for one pair end the job.
    """
    clients_with_limits = beside(clients, limits)
    rows = [
        fn.when(
            can_have_limit(key),
            fn.struct(fn.lit(key).alias("quota_key"), winner(key).alias("found")),
        )
        for key in (*_OF_CLIENTS, *_OF_IPS)
    ]
    # Each client becomes one row per key only after all joins.
    effective_rows = clients_with_limits.select(
        *CLIENT, "day", fn.explode(fn.array_compact(fn.array(*rows))).alias("row")
    )
    return conforming(
        effective_rows.select(
            *CLIENT,
            "day",
            "row.quota_key",
            "row.found.value",
            "row.found.quota_units",
            "row.found.level",
            fn.coalesce("row.found.source_entity", fn.lit("")).alias("source_entity"),
        ),
        EFFECTIVE_QUOTA,
    )


def tags(buckets: DataFrame, limits: DataFrame) -> DataFrame:
    """Return the buckets with their limit (``usage.tags.limit_of``).

    Args:
        buckets: :data:`BUCKET`, each bucket once; other columns are kept.
        limits: ``quota_entry`` of one snapshot per cluster.

    Returns:
        The columns of ``buckets`` with ``value``, ``quota_units``, ``value_state``, ``level`` (null = no limit) and
        ``source_entity`` ("" = none).
    """
    level_frames = levelled(limits)
    bucket_columns = buckets.columns
    keyed_buckets = buckets.withColumn("quota_key", key_of(fn.col("quota_type")))
    for side in (*CLIENT_SIDES, *IP_SIDES):
        keyed_buckets = _beside(
            keyed_buckets, laid_out(level_frames, side, ()), side, ("cluster_id", "quota_key")
        )
    effective_limit: Column | None = None
    for kind, levels in LEVELS_OF_KIND.items():
        first = fn.coalesce(*(fn.col(column(number)) for number in levels))
        is_kind = fn.col("group_kind") == str(kind)
        effective_limit = (
            fn.when(is_kind, first)
            if effective_limit is None
            else effective_limit.when(is_kind, first)
        )
    return (
        keyed_buckets.withColumn(
            "held", effective_limit if effective_limit is not None else fn.lit(None)
        )
        .select(*(fn.col(f"`{name}`") for name in bucket_columns), "held.*")
        .withColumn("source_entity", fn.coalesce("source_entity", fn.lit("")))
    )


def beside(clients: DataFrame, limits: DataFrame) -> DataFrame:
    """Add one column per level and key to the clients; four joins for users and client ids, two for addresses."""
    level_frames = levelled(limits)
    clients_with_limits = clients
    for side in CLIENT_SIDES:
        clients_with_limits = _beside(
            clients_with_limits, laid_out(level_frames, side, _OF_CLIENTS), side, ("cluster_id",)
        )
    for side in IP_SIDES:
        clients_with_limits = _beside(
            clients_with_limits, laid_out(level_frames, side, _OF_IPS), side, ("cluster_id",)
        )
    return clients_with_limits


def ladder(key: str) -> tuple[Column, ...]:
    """Return the columns of :func:`beside` for a key, closest level first; null if the level is absent or cannot apply to the client."""
    sides = IP_SIDES if key in _OF_IPS else CLIENT_SIDES
    return tuple(
        fn.when(_may_hold(number), fn.col(column(number, key)))
        for number in sorted(number for side in sides for number in side.levels)
    )


def winner(key: str) -> Column:
    """Return the effective limit of a key, null = none."""
    return fn.coalesce(*ladder(key))


def can_have_limit(key: str) -> Column:
    """Whether the client can have limits of the key."""
    if key in _OF_IPS:
        return fn.col("ip") != ""
    return (fn.col("user") != "") | (fn.col("client_id") != "")


def key_of(quota_type: Column) -> Column:
    """Return ``samples.KEY_OF`` as a column."""
    cases = [(str(kind), str(key)) for kind, key in KEY_OF.items()]
    return fn.coalesce(*(fn.when(quota_type == kind, fn.lit(key)) for kind, key in cases))


def _may_hold(number: int) -> Column:
    needs = [fn.lit(number) == number, *(fn.col(name) != "" for name in _DEFAULTS[number])]
    return reduce(Column.__and__, needs)


def _beside(frame: DataFrame, laid: DataFrame, side: LevelGroup, on: tuple[str, ...]) -> DataFrame:
    """Join the levels of a side; every row stays one row, since ``laid`` has each name once. Without names it is a few rows and broadcast."""
    return frame.join(laid if side.names else fn.broadcast(laid), [*on, *side.names], "left")
