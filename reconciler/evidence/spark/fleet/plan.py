"""The plan of a fleet: live, desired and owned pairs in one grouping; ``quota`` compares those that may differ.

Rows are exchanged once by pair before they are grouped: the three rows of a pair are never in one file, so
grouping earlier only adds work.

1. :func:`differences`: union of observed, desired and owned pairs, grouped once by key. Pairs in sync are dropped
   here; the caller persists the rest, which is usually small enough for a broadcast join.
2. :func:`laid_out`: adds claims, owners, intents, overrides and document states to each pair.
3. :func:`decided`: ``compare`` of ``quota`` over batches of pairs, since its verdict on a pair depends on no other pair.
"""

import datetime as dt
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial, reduce
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType

from reconciler.errors import LakeError
from reconciler.evidence.spark.fleet.plan_inputs import PlanFrames, cluster_sides
from reconciler.evidence.spark.limits.entities import is_known, normal
from reconciler.evidence.spark.tables.schemas import conforming, struct
from reconciler.quota.entity import DEFAULT
from reconciler.quota.entity import level as level_of
from reconciler.quota.entity_forms import canonical_text
from reconciler.quota.planner.comparison import compare
from reconciler.quota.planner.plan import Finding, QuotaChange
from reconciler.quota.policy import Cause, Rules
from reconciler.usage.tables import PLAN_CONFLICT, PLAN_ROW

PAIR: Final = ("cluster_id", "entity_json", "quota_key")
"""The columns that identify a pair in a fleet."""

TWICE: Final = "a pair is given twice"
"""Prefix of the error of a job whose snapshots or inventories have two values for one pair."""

_BITS: Final = 20
_MOST: Final = (1 << _BITS) - 1
_MARKS: Final = {"declared": 1, "applied": 1 << _BITS, "live": 1 << 2 * _BITS}
"""Marks the input of a row. Their sum counts the rows of each input of a pair in one number, up to 2**20 - 1 each."""

_HALTED: Final = 2
"""Greater than the mark of other rare states: a frozen document would declare the pair."""

CHANGE, FINDING, IN_SYNC = "change", "finding", "in_sync"
VERDICT: Final = StructType(
    [
        *struct(PLAN_ROW).fields,
        StructField("kind", StringType()),
        StructField("ignored", BooleanType()),
        StructField("on_default", BooleanType()),
        StructField("pairs", LongType()),
    ]
)
"""A change or a finding in the form of ``plan_row``. Pairs in sync are one row with their number, without a name."""

_OVERRIDES: Final = (str(Cause.OVERRIDE), str(Cause.ENDED))

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


def differences(sides: PlanFrames) -> DataFrame:
    """Return the pairs that may differ: :data:`PAIR`, ``applied``, ``live``, ``claims``, ``halted``.

    Two live or two owned values of one pair end the job with :data:`TWICE`; claims of two documents do not.
    """
    value, side = fn.col("value"), fn.col("side")
    # Repartitioned first: no two rows of a pair are in one file, so a partial aggregation would only add work.
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
    claims, records, live_rows = (
        fn.shiftright("sides", bits).bitwiseAND(fn.lit(_MOST)) for bits in (0, _BITS, 2 * _BITS)
    )
    quiet = (fn.col("sides") == sum(_MARKS.values())) & (fn.col("rare") == 0)
    is_same = fn.coalesce(_same("declared", "applied") & _same("declared", "live"), fn.lit(0) == 1)
    twice = fn.raise_error(conflict_message).cast("boolean")
    return grouped.where(
        fn.when((records > 1) | (live_rows > 1), twice).otherwise(~(quiet & is_same))
    ).select(
        *PAIR,
        "applied",
        "live",
        claims.alias("claims"),
        (fn.col("rare") == _HALTED).alias("halted"),
    )


def _union(sides: PlanFrames) -> DataFrame:
    """Return the union of the three inputs: pair, value, mark of the input, and mark of rare states."""

    def marked(frame: DataFrame, name: str, value: Column, rare: Column) -> DataFrame:
        side = fn.lit(_MARKS.get(name, 0)).cast("bigint")
        return frame.select(
            *PAIR, value.alias("value"), side.alias("side"), rare.cast("int").alias("rare")
        )

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
            marked(sides.live.where(is_known()), "live", value, plain),
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


def laid_out(different: DataFrame, sides: PlanFrames) -> DataFrame:
    """Return the pairs of :func:`differences` with their records, claims and the states of their owners' documents."""
    pairs = different.select(*PAIR)
    # Restricted to these pairs; Spark itself broadcasts a small persisted frame.
    owned = sides.owned.join(pairs, list(PAIR), "left_semi").drop("applied", "day")
    claim = fn.struct("document", "path", "line", "value", "deletion_policy")
    claims = (
        sides.desired.where("not halted")
        .join(pairs, list(PAIR), "left_semi")
        .groupBy(*PAIR)
        .agg(fn.collect_list(claim).alias("claimed"))
    )
    joined_pairs = different.join(owned, list(PAIR), "left").join(claims, list(PAIR), "left")
    for name in ("document", "intent_document"):
        joined_pairs = _with_document_state(joined_pairs, sides.documents, name)
    return joined_pairs


def _with_document_state(joined_pairs: DataFrame, documents: DataFrame, name: str) -> DataFrame:
    """Add ``NAME_there`` and ``NAME_frozen``: whether the document exists and whether it is frozen (null = neither)."""
    document_names = joined_pairs.where(fn.col(name) != "").select(
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
    return joined_pairs.join(document_states, ["cluster_id", name], "left")


def decided(
    joined_pairs: DataFrame, rules: Mapping[str, Rules], *, now: float, day: dt.date
) -> DataFrame:
    """Return the verdicts of ``quota.planner.comparison.compare`` on the pairs of :func:`laid_out`: rows of :data:`VERDICT`.

    Args:
        rules: Rules by cluster id; a pair of a cluster without rules ends the job.
        now: Seconds since the epoch, for overrides, ignore rules and writes with unknown outcome.
        day: The value of the column ``day``.
    """
    return joined_pairs.mapInArrow(_comparing(dict(rules), now, day), VERDICT)


def _comparing(
    rules: Mapping[str, Rules], now: float, day: dt.date
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    schema = to_arrow_schema(VERDICT)

    def compared(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            pairs_by_cluster: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
            for pair in batch.to_pylist():
                pairs_by_cluster[pair["cluster_id"]].append(pair)
            verdicts = [
                verdict | {"cluster_id": cluster_id, "day": day}
                for cluster_id, pairs in pairs_by_cluster.items()
                for verdict in _verdicts(cluster_id, pairs, rules.get(cluster_id), now)
            ]
            yield pa.RecordBatch.from_pylist(verdicts, schema=schema)

    return compared


def _verdicts(
    cluster_id: str, pairs: Sequence[Mapping[str, Any]], rules: Rules | None, now: float
) -> Iterator[dict[str, Any]]:
    if rules is None:
        raise LakeError(f"no rules for {cluster_id}")
    desired, owned, live = cluster_sides(cluster_id, pairs)
    plan = compare(desired=desired, owned=owned, live=live, rules=rules, now=now)
    nothing = dict.fromkeys(("entity_json", "quota_key", "action", "cause", "document", "path"), "")
    yield nothing | {"kind": IN_SYNC, "level": 0, "line": 0, "pairs": plan.in_sync}
    entries: tuple[QuotaChange | Finding, ...] = (*plan.changes, *plan.findings)
    for entry in entries:
        claim, source = entry.claim, entry.claim or entry.owner
        change = entry if isinstance(entry, QuotaChange) else None
        yield {
            "entity_json": canonical_text(entry.entity),
            "level": level_of(entry.entity),
            "quota_key": str(entry.key),
            "action": str(entry.action),
            "cause": str(entry.cause),
            "before": change.before if change else None,
            "after": change.after if change else None,
            "document": source.document if source else "",
            "path": claim.path if claim else "",
            "line": claim.line_of(entry.key) if claim else 0,
            "kind": CHANGE if change else FINDING,
            "ignored": isinstance(entry, Finding) and entry.ignored,
            "on_default": DEFAULT in entry.entity,
            "pairs": 1,
        }


def rows(verdicts: DataFrame) -> DataFrame:
    """Return the changes of :func:`decided` as ``plan_row``."""
    return conforming(verdicts.where(fn.col("kind") == CHANGE), PLAN_ROW)


def conflicts(pairs: DataFrame, sides: PlanFrames) -> DataFrame:
    """Return every claim on a pair that several documents claim, as ``plan_conflict``.

    Args:
        pairs: The result of :func:`differences`.
        sides: The inputs of the plan.
    """
    conflicting_pairs = pairs.where(fn.col("claims") > 1).select(*PAIR)
    claims = sides.desired.where("not halted").join(conflicting_pairs, list(PAIR), "left_semi")
    return conforming(claims, PLAN_CONFLICT)


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
        pairs: The result of :func:`differences`.
        decided: The result of :func:`decided`.
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


def _same(first: str, second: str) -> Column:
    return normal(first) == normal(second)
