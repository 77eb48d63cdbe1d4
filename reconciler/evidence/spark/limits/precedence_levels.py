"""Limits of each precedence level as columns, one row per name, for joins to clients. No joins to clients here.

A limit belongs to one of ten levels (``quota.entity.level``); a level is looked up by the names that it fixes: user and
client id, one of them, the address, or none. Four tables cover the eight levels of clients, each with one row per name
and one column per level: a join never multiplies rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from reconciler.evidence.spark.limits.entities import LEVELS, NAMES, level
from reconciler.quota.keys import COLUMNS

TWICE: Final = "a limit is given twice"
"""Prefix of the error of a job with two values for one pair."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelGroup:
    """Levels that are looked up by the same names.

    Attributes:
        names: The columns in which client and limit must be equal, besides the cluster.
    """

    names: tuple[str, ...]
    levels: tuple[int, ...]


def names_with(kind: str) -> dict[int, tuple[str, ...]]:
    """Return by level the columns of its slots that are ``named`` or ``default``; levels in order."""
    return {
        number: tuple(name for name, slot in zip(NAMES, kinds, strict=True) if slot == kind)
        for kinds, number in sorted(LEVELS.items(), key=lambda item: item[1])
    }


def _groups(*, of_ip: bool) -> tuple[LevelGroup, ...]:
    levels_by_names: dict[tuple[str, ...], list[int]] = {}
    defaults = names_with("default")
    for number, names in names_with("named").items():
        if ("ip" in (*names, *defaults[number])) == of_ip:
            levels_by_names.setdefault(names, []).append(number)
    return tuple(
        LevelGroup(names=names, levels=tuple(levels)) for names, levels in levels_by_names.items()
    )


CLIENT_SIDES: Final = _groups(of_ip=False)
IP_SIDES: Final = _groups(of_ip=True)


def shaped(entries: DataFrame) -> DataFrame:
    """Return the limits of supported entities and keys with ``level`` and ``nameless``; foreign types and keys are dropped.

    A live entity with an empty name (``nameless``) applies to no client.
    """
    slots = (("user_kind", "user"), ("client_kind", "client_id"), ("ip_kind", "ip"))
    nameless = reduce(
        Column.__or__, [(fn.col(kind) == "named") & (fn.col(name) == "") for kind, name in slots]
    )
    return (
        entries.where(fn.col("quota_key").isin([str(key) for key in COLUMNS]))
        .withColumn("level", level(fn.col("user_kind"), fn.col("client_kind"), fn.col("ip_kind")))
        .withColumn("nameless", nameless)
        .where(fn.col("level").isNotNull())
    )


def levelled(entries: DataFrame) -> DataFrame:
    """Return the limits that can apply to a client, with their ``level``."""
    return shaped(entries).where("not nameless")


def laid_out(limits: DataFrame, side: LevelGroup, keys: Sequence[str]) -> DataFrame:
    """Return one row per cluster and name, one column per level and key, each a struct or null.

    Args:
        limits: :func:`levelled`; two rows for one pair end the job with :data:`TWICE`.
        side: The levels and their names.
        keys: Quota keys that become columns (:func:`column`); empty = ``quota_key`` is a column to join by.
    """
    limit_struct = fn.struct(
        "value", "quota_units", "value_state", fn.col("entity_json").alias("source_entity"), "level"
    )
    columns: list[Column] = []
    for number in side.levels:
        for key in keys or ("",):
            fits = fn.col("level") == number
            if key:
                fits = fits & (fn.col("quota_key") == key)
            columns.append(_only(fits, limit_struct).alias(column(number, key)))
    by = ["cluster_id", *side.names] if keys else ["cluster_id", "quota_key", *side.names]
    limits_of_levels = limits.where(fn.col("level").isin(list(side.levels)))
    if keys:
        limits_of_levels = limits_of_levels.where(fn.col("quota_key").isin(list(keys)))
    return limits_of_levels.groupBy(*by).agg(columns[0], *columns[1:])


def column(number: int, key: str = "") -> str:
    """Return the column name of a level, and of a key if there are several."""
    return f"level_{number}_{key}" if key else f"level_{number}"


def _only(fits: Column, limit_struct: Column) -> Column:
    """Return the only row that fits; more than one ends the job with :data:`TWICE`."""
    which = fn.when(fits, limit_struct)
    text = fn.concat(
        fn.lit(f"{TWICE}: "),
        fn.max(fn.when(fits, fn.concat_ws(" ", "cluster_id", "entity_json", "quota_key"))),
    )
    return fn.when(fn.count(which) > 1, fn.raise_error(text)).otherwise(fn.max(which))
