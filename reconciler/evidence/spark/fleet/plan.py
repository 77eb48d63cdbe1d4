"""The plan of a fleet: three sides in one grouping, then the core's verdict on every pattern that occurs, joined back.

Rows are exchanged once by pair before they are grouped: the three rows of a pair are never in one file, so
grouping earlier only adds work.

1. :func:`differences`: observed, desired and owned pairs unioned and grouped once by key. What is plainly in sync goes
   here; the caller keeps the rest (``persist``), which is small as a rule and then joined by broadcast.
2. :func:`laid_out`: claims, owners, intents, overrides and rules beside each pair (kept, too); :func:`described`: its pattern.
3. :func:`patterns` -> ``verdicts.decide`` for each -> :func:`decided`; :func:`rows` are those of the core.
"""

from collections.abc import Iterable
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from reconciler.evidence.spark.fleet.pattern_decisions import (
    FLAGS,
    NOBODY,
    VALUES,
    PatternDecision,
    decide,
)
from reconciler.evidence.spark.fleet.plan_inputs import PlanFrames
from reconciler.evidence.spark.limits.entities import level, meant, normal, slots
from reconciler.evidence.spark.tables.schemas import conforming
from reconciler.quota.keys import COLUMNS
from reconciler.quota.ownership import SETTLING_SECONDS
from reconciler.usage.tables import PLAN_CONFLICT, PLAN_ROW

PAIR: Final = ("cluster_id", "entity_json", "quota_key")
"""What names a pair of a fleet."""

TWICE: Final = "a pair is given twice"
"""Begins the error of a job whose looks or inventories have two values for one pair."""

_BITS: Final = 20
_MOST: Final = (1 << _BITS) - 1
_MARKS: Final = {"declared": 1, "applied": 1 << _BITS, "live": 1 << 2 * _BITS}
"""Which side a row is of. Added up they count the rows of each side in one number; a million claims on one pair are no plan."""

_HALTED: Final = 2
"""Rarer than rare: a frozen document would ask for the pair."""

_OWNED: Final = (
    "document",
    "deletion_policy",
    "orphaned",
    "intended",
    "intent_value",
    "intent_document",
    "intent_deletion_policy",
    "intent_at_s",
    "overridden",
    "override_value",
    "override_until_s",
    "override_before",
    "override_declared",
    "override_ends_with_document",
)
_VERDICT: Final = (
    "pattern string, kind string, cause string, action string, after_from string, document_from string,"
    " in_sync boolean, ignored boolean"
)


def differences(sides: PlanFrames) -> DataFrame:
    """The pairs that are not plainly in sync: :data:`PAIR`, ``declared``, ``applied``, ``live``, ``claims``, ``halted``.

    Two values of one side for one pair end the job with :data:`TWICE`; two documents that claim one pair do not.
    """
    value, side = fn.col("value"), fn.col("side")
    # Exchanged before anything is grouped: no two rows of a pair lie in one file, so grouping earlier would only cost.
    grouped = (
        _union(sides)
        .repartition(*PAIR)
        .groupBy(*PAIR)
        .agg(
            *(fn.max(fn.when(side == mark, value)).alias(name) for name, mark in _MARKS.items()),
            fn.sum("side").alias("sides"),
            fn.max("rare").alias("rare"),
        )
    )
    conflict_message = fn.concat(fn.lit(f"{TWICE}: "), fn.concat_ws(" ", *PAIR))
    claims, records, looks = (
        fn.shiftright("sides", bits).bitwiseAND(fn.lit(_MOST)) for bits in (0, _BITS, 2 * _BITS)
    )
    quiet = (fn.col("sides") == sum(_MARKS.values())) & (fn.col("rare") == 0)
    is_same = fn.coalesce(_same("declared", "applied") & _same("declared", "live"), fn.lit(0) == 1)
    twice = fn.raise_error(conflict_message).cast("boolean")
    return grouped.where(
        fn.when((records > 1) | (looks > 1), twice).otherwise(~(quiet & is_same))
    ).select(
        *PAIR,
        fn.when(claims == 1, fn.col("declared")).alias("declared"),
        "applied",
        "live",
        claims.alias("claims"),
        (fn.col("rare") == _HALTED).alias("halted"),
    )


def _union(sides: PlanFrames) -> DataFrame:
    """The three sides under one another: a pair, a value, which side it is of, and whether anything is rare about it."""

    def marked(frame: DataFrame, name: str, value: Column, rare: Column) -> DataFrame:
        side = fn.lit(_MARKS.get(name, 0)).cast("bigint")
        return frame.select(
            *PAIR, value.alias("value"), side.alias("side"), rare.cast("int").alias("rare")
        )

    is_known_key = fn.col("quota_key").isin([str(key) for key in COLUMNS])
    kinds = level(fn.col("user_kind"), fn.col("client_kind"), fn.col("ip_kind"))
    frozen = fn.broadcast(
        sides.documents.where("frozen").select("cluster_id", "document", fn.lit(1).alias("stopped"))
    )
    owned = sides.owned.join(frozen, ["cluster_id", "document"], "left")
    has, value, plain = fn.col("applied").isNotNull(), fn.col("value"), fn.lit(0)
    rare = (
        fn.col("orphaned")
        | fn.col("intended")
        | fn.col("overridden")
        | fn.col("stopped").isNotNull()
    )
    return reduce(
        DataFrame.unionAll,
        [
            marked(sides.live.where(is_known_key & kinds.isNotNull()), "live", value, plain),
            marked(sides.desired.where("not halted"), "declared", value, plain),
            marked(
                sides.desired.where("halted"),
                "nobody",
                fn.lit(None).cast("double"),
                fn.lit(_HALTED),
            ),
            marked(owned.where(has), "applied", fn.col("applied"), rare),
            marked(owned.where(~has), "nobody", fn.col("applied"), fn.lit(1)),
        ],
    )


def laid_out(combined: DataFrame, sides: PlanFrames) -> DataFrame:
    """The pairs of :func:`differences` with their records, claims and rules; small as a rule, so worth keeping, too."""
    pairs = combined.select(*PAIR)
    # Only what speaks of these pairs; a small frame that was kept is broadcast by Spark itself.
    owned = sides.owned.join(pairs, list(PAIR), "left_semi").select(*PAIR, *_OWNED)
    claims = (
        sides.desired.where("not halted")
        .join(pairs, list(PAIR), "left_semi")
        .groupBy(*PAIR)
        .agg(fn.min(fn.struct("path", "line", fn.col("document"))).alias("claim"))
    )
    laid = combined.join(owned, list(PAIR), "left").join(claims, list(PAIR), "left")
    return laid.join(fn.broadcast(sides.orders), ["cluster_id"], "left")


def described(laid: DataFrame, sides: PlanFrames) -> DataFrame:
    """The pairs of :func:`laid_out` with everything that a verdict may ask, and its ``pattern``."""
    for name in ("document", "intent_document"):
        laid = _with_document_state(laid, sides.documents, name)
    entity_slots = slots(fn.col("entity_json"))
    laid = laid.withColumn("slots", entity_slots).withColumn(
        "level",
        level(*(fn.col(f"slots.{kind}") for kind in ("user_kind", "client_kind", "ip_kind"))),
    )
    return laid.withColumn("pattern", _pattern())


def _with_document_state(laid: DataFrame, documents: DataFrame, name: str) -> DataFrame:
    """With ``NAME_there`` and ``NAME_frozen``: whether the document exists and whether it is frozen (null = neither)."""
    document_names = laid.where(fn.col(name) != "").select(
        "cluster_id", fn.col(name).alias("document")
    )
    document_states = documents.join(
        document_names, ["cluster_id", "document"], "left_semi"
    ).select(
        "cluster_id",
        fn.col("document").alias(name),
        fn.lit(1).alias(f"{name}_there"),
        fn.col("frozen").alias(f"{name}_frozen"),
    )
    return laid.join(document_states, ["cluster_id", name], "left")


def patterns(laid_out_pairs: DataFrame) -> DataFrame:
    """The patterns that occur in :func:`described`: some hundreds, however large the fleet."""
    return laid_out_pairs.select("pattern").distinct()


def verdicts(pair_patterns: DataFrame, occurring: Iterable[str]) -> DataFrame:
    """The core's verdict on each pattern, as a table beside ``pair_patterns``."""
    return pair_patterns.sparkSession.createDataFrame(
        [_verdict_row(decide(pattern)) for pattern in sorted(set(occurring))], _VERDICT
    )


def decided(pairs: DataFrame, table: DataFrame) -> DataFrame:
    """:func:`described` with the verdict on each pair; a pattern without one ends the job."""
    joined = pairs.join(fn.broadcast(table), ["pattern"], "left")
    missing = fn.raise_error(fn.concat(fn.lit("no verdict on "), "pattern")).cast("string")
    return joined.withColumn("kind", fn.coalesce("kind", missing))


def rows(pairs: DataFrame) -> DataFrame:
    """The changes, as ``plan_row``: exactly those of ``quota.rows.plan_rows``."""
    after = fn.coalesce(
        fn.when(fn.col("after_from") == "declared", fn.col("declared")),
        fn.when(fn.col("after_from") == "override", fn.col("override_value")),
        fn.when(fn.col("after_from") == "override_before", fn.col("override_before")),
    )
    document = fn.coalesce(
        fn.when(fn.col("document_from") == "claim", fn.col("claim.document")),
        fn.when(fn.col("document_from") == "record", fn.col("document")),
        fn.when(fn.col("document_from") == "intent", fn.col("intent_document")),
        fn.lit(""),
    )
    claimed = fn.col("document_from") == "claim"
    return conforming(
        pairs.where(fn.col("kind") == "change").select(
            *PAIR,
            "level",
            "action",
            "cause",
            fn.col("live").alias("before"),
            after.alias("after"),
            document.alias("document"),
            fn.when(claimed, fn.col("claim.path")).otherwise(fn.lit("")).alias("path"),
            fn.when(claimed, fn.col("claim.line")).otherwise(fn.lit(0)).alias("line"),
            "day",
        ),
        PLAN_ROW,
    )


def conflicts(pairs: DataFrame, sides: PlanFrames) -> DataFrame:
    """Every claim on a pair that two documents claim, as ``plan_conflict``.

    Args:
        pairs: :func:`differences`.
        sides: The same.
    """
    conflicting_pairs = pairs.where(fn.col("claims") > 1).select(*PAIR)
    claims = sides.desired.where("not halted").join(conflicting_pairs, list(PAIR), "left_semi")
    return conforming(claims, PLAN_CONFLICT)


def _pattern() -> Column:
    """The text that ``verdicts`` reads."""
    values = dict(
        zip(
            VALUES,
            ("declared", "applied", "live", "intent_value", "override_value", "override_before"),
            strict=True,
        )
    )
    names = list(values.values())
    normal = [_normal(name) for name in names]
    places = [
        fn.when(fn.col(name).isNull(), fn.lit("-")).otherwise(
            fn.coalesce(
                *(
                    fn.when(normal[at] == normal[earlier_place], fn.lit(str(earlier_place)))
                    for earlier_place in range(at)
                ),
                fn.lit(str(at)),
            )
        )
        for at, name in enumerate(names)
    ]
    now, key = fn.col("now_s"), fn.col("quota_key")
    flags = {
        "contested": fn.col("claims") > 1,
        "halted": fn.col("halted"),
        "intends": fn.col("intended"),
        "may_land": now < fn.col("intent_at_s") + fn.lit(SETTLING_SECONDS),
        "orphaned": fn.col("orphaned"),
        "overridden": fn.col("overridden"),
        "over": now >= fn.col("override_until_s"),
        "ends_with_document": fn.col("override_ends_with_document"),
        "declared_as_then": fn.col("declared").eqNullSafe(fn.col("override_declared")),
        "in_scope": meant(fn.col("scope"), fn.col("slots"), fn.col("level"), key),
        "ignored": meant(fn.col("ignored_rules"), fn.col("slots"), fn.col("level"), key),
    }
    facts = [fn.coalesce(flags[name].cast("int"), fn.lit(0)).cast("string") for name in FLAGS]
    return fn.concat_ws(
        "|",
        fn.coalesce(
            "rules", fn.raise_error(fn.concat(fn.lit("no rules for "), "cluster_id")).cast("string")
        ),
        fn.concat(*places),
        fn.concat(*facts),
        fn.when(fn.col("applied").isNotNull(), _owner("document", "deletion_policy")).otherwise(
            fn.lit(NOBODY)
        ),
        fn.when(fn.col("intended"), _owner("intent_document", "intent_deletion_policy")).otherwise(
            fn.lit(NOBODY)
        ),
    )


def _owner(document: str, policy: str) -> Column:
    is_present, frozen = fn.col(f"{document}_there"), fn.col(f"{document}_frozen")
    return fn.concat(
        fn.when(fn.col(document) == "", fn.lit("e")).otherwise(fn.lit("d")),
        fn.when(is_present.isNotNull(), fn.lit("x")).otherwise(fn.lit(".")),
        fn.when(frozen, fn.lit("f")).otherwise(fn.lit(".")),
        fn.when(fn.col(policy) == "", fn.lit(".")).otherwise(fn.substring(policy, 1, 1)),
    )


def _normal(name: str) -> Column:
    return normal(fn.col("quota_key"), fn.col(name))


def _same(first: str, second: str) -> Column:
    return _normal(first) == _normal(second)


def _verdict_row(decision: PatternDecision) -> tuple[object, ...]:
    return (
        decision.pattern,
        decision.kind,
        decision.cause,
        decision.action,
        decision.after,
        decision.document,
        decision.in_sync,
        decision.ignored,
    )
