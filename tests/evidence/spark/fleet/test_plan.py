"""The plan of a fleet on Spark has the rows of the core, over generated clusters in one job."""

import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest
from pyspark.errors import PythonException, SparkRuntimeException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from reconciler.evidence.spark.fleet import plan as native
from reconciler.evidence.spark.fleet.plan_inputs import ClusterPlanInput, PlanFrames, sides
from reconciler.evidence.spark.tables.schemas import struct
from reconciler.quota.entity import DEFAULT, entity
from reconciler.quota.entity_forms import canonical_parts_text, canonical_text
from reconciler.quota.keys import Key
from reconciler.quota.ownership import Owner, OwnershipRecord, OwnershipRecords
from reconciler.quota.planner.comparison import compare
from reconciler.quota.planner.desired_state import Declaration, merge
from reconciler.quota.policy import Cause, DriftMode, Rules
from reconciler.quota.state import Limits, QuotaState
from reconciler.usage.tables import PLAN_CONFLICT, PLAN_ROW, QUOTA_ENTRY
from tests.evidence.spark import plan_cases, plans, quota_cases
from tests.evidence.spark.core_plan_rows import plan_rows
from tests.evidence.spark.quota_cases import DAY
from tests.quota.strategies import NOW, World

pytestmark = pytest.mark.integration

CASES = 400


def sides_of(spark: SparkSession, worlds: dict[str, World]) -> PlanFrames:
    live = spark.createDataFrame(
        [row for name, world in worlds.items() for row in quota_cases.entry_rows(name, world.live)],
        struct(QUOTA_ENTRY),
    )
    fleet = {
        name: ClusterPlanInput(desired=world.desired, owned=world.owned, rules=world.rules, day=DAY)
        for name, world in worlds.items()
    }
    return sides(spark, live, fleet)


def planned(plan_frames: PlanFrames, rules: dict[str, Rules]) -> tuple[DataFrame, DataFrame]:
    different = native.differences(plan_frames).persist()
    laid = native.laid_out(different, plan_frames)
    return different, native.decided(laid, rules, now=NOW, day=DAY).persist()


def rules_of(worlds: dict[str, World]) -> dict[str, Rules]:
    return {name: world.rules for name, world in worlds.items()}


@pytest.fixture(scope="module")
def worlds() -> dict[str, World]:
    draw = random.Random(6)
    return {f"c{n}": plan_cases.world(draw, f"c{n}") for n in range(CASES)}


@pytest.fixture(scope="module")
def fleet_plan(
    spark: SparkSession, worlds: dict[str, World]
) -> Iterator[tuple[PlanFrames, DataFrame, DataFrame]]:
    """The inputs of all worlds, and Spark's plan of them."""
    plan_frames = sides_of(spark, worlds)
    different, decisions = planned(plan_frames, rules_of(worlds))
    yield plan_frames, different, decisions
    different.unpersist()
    decisions.unpersist()


def test_the_rows_equal_those_of_the_core(
    fleet_plan: tuple[PlanFrames, DataFrame, DataFrame], worlds: dict[str, World]
) -> None:
    plan_frames, different, decisions = fleet_plan
    rows = native.rows(decisions)
    assert rows.schema.simpleString() == struct(PLAN_ROW).simpleString()
    expected, causes, doubted = [], Counter(), []
    for name, world in worlds.items():
        plan = compare(
            desired=world.desired, owned=world.owned, live=world.live, rules=world.rules, now=NOW
        )
        for row in plan_rows(plan):
            causes[row.cause] += 1
            expected.append(
                (
                    row.cluster_id,
                    canonical_parts_text(row.entity),
                    row.level,
                    row.key,
                    row.action,
                    row.cause,
                    row.before,
                    row.after,
                    row.document,
                    row.path,
                    row.line,
                    DAY,
                )
            )
        doubted += [
            (
                name,
                canonical_text(conflict.entity),
                str(conflict.key),
                claim.limits[list(Key).index(conflict.key)],
                claim.document,
                claim.path,
                claim.line_of(conflict.key),
                DAY,
            )
            for conflict in plan.conflicts
            for claim in conflict.claims
        ]
    assert sorted(map(repr, map(tuple, rows.collect()))) == sorted(map(repr, expected))
    assert len(causes) >= 9, causes
    claims = native.conflicts(different, plan_frames)
    assert claims.schema.simpleString() == struct(PLAN_CONFLICT).simpleString()
    assert sorted(map(repr, map(tuple, claims.collect()))) == sorted(map(repr, doubted))
    assert doubted


def test_the_totals_of_each_cluster_equal_those_of_the_core(
    fleet_plan: tuple[PlanFrames, DataFrame, DataFrame], worlds: dict[str, World]
) -> None:
    plan_frames, different, decisions = fleet_plan
    sums = native.totals(plan_frames, different, decisions)
    counts = native.verdict_counts(decisions)
    expected, verdicts = {}, Counter()
    for name, world in worlds.items():
        plan = compare(
            desired=world.desired, owned=world.owned, live=world.live, rules=world.rules, now=NOW
        )
        changes = [c for c in plan.changes if c.cause not in {Cause.OVERRIDE, Cause.ENDED}]
        expected[name] = (
            plan.documents,
            plan.desired_pairs,
            plan.owned_pairs,
            plan.in_sync,
            len(plan.conflicts),
            sum(c.removes for c in changes),
            sum(DEFAULT in c.entity for c in changes),
        )
        for change in plan.changes:
            verdicts[name, "change", str(change.cause), change.action, False] += 1
        for finding in plan.findings:
            verdicts[name, "finding", str(finding.cause), str(finding.action), finding.ignored] += 1
    assert {row[0]: tuple(row)[1:] for row in sums.collect()} == expected
    assert {tuple(row)[:5]: row["pairs"] for row in counts.collect()} == verdicts


def test_two_snapshots_of_one_pair_fail_the_job(spark: SparkSession) -> None:
    draw = random.Random(1)
    worlds = {"twice": plan_cases.world(draw, "twice")}
    assert worlds["twice"].live.limits
    plan_frames = sides_of(spark, worlds)
    doubled = replace(plan_frames, live=plan_frames.live.unionAll(plan_frames.live))
    with pytest.raises(SparkRuntimeException, match=native.TWICE):
        native.differences(doubled).collect()


def test_a_cluster_without_rules_fails_the_job(spark: SparkSession) -> None:
    worlds = {f"c{n}": plan_cases.world(random.Random(n), f"c{n}") for n in range(2)}
    _, decisions = planned(sides_of(spark, worlds), {"c0": worlds["c0"].rules})
    with pytest.raises(PythonException, match="no rules for c1"):
        decisions.collect()


def test_pairs_are_grouped_by_one_exchange_without_a_join(
    spark: SparkSession, worlds: dict[str, World]
) -> None:
    plan_frames = sides_of(spark, worlds)
    differences = native.differences(plan_frames)
    plans.of(differences).assert_native()
    assert len(re.findall(r"Exchange hashpartitioning", plans.of(differences).text)) == 1
    assert len(re.findall(r"\bSort(MergeJoin|Aggregate)?\b", plans.of(differences).text)) == 0


def test_a_hundred_thousand_rows_equal_the_rows_of_the_core(spark: SparkSession) -> None:
    """Three inputs of 36,000 pairs, generated by one rule in both engines; every row and every column is compared."""
    many = 36_000
    n = fn.col("id")
    numbers = spark.range(0, many, 1, 2).withColumn(
        "entity_json", fn.concat(fn.lit('[["user","u'), n.cast("string"), fn.lit('"]]'))
    )
    value = (n % 5 + 2000).cast("double")
    common = {
        "cluster_id": fn.lit("big"),
        "quota_key": fn.lit("producer_byte_rate"),
        "day": fn.lit(DAY),
        "user_kind": fn.lit("named"),
        "client_kind": fn.lit("absent"),
        "ip_kind": fn.lit("absent"),
    }
    pairs = numbers.withColumns(common)
    no, none, empty = fn.lit(1) == 0, fn.lit(None).cast("double"), fn.lit("")
    document = fn.concat(fn.lit("t/d"), (n % 1000).cast("string"))
    nulls = dict.fromkeys(
        (
            "intent_value",
            "intent_at_s",
            "override_value",
            "override_until_s",
            "override_before",
            "override_applied",
            "override_declared",
        ),
        none,
    )
    truths = dict.fromkeys(
        ("orphaned", "intended", "overridden", "override_ends_with_document"), no
    )
    texts = dict.fromkeys(("deletion_policy", "intent_document", "intent_deletion_policy"), empty)
    plan_frames = PlanFrames(
        live=pairs.where("id % 101 != 0").withColumn("value", value + (n % 97 == 0).cast("double")),
        desired=pairs.where("id % 89 != 0").withColumns(
            {
                "value": value + (n % 83 == 0).cast("double"),
                "document": document,
                "path": fn.lit("p"),
                "line": n.cast("int"),
                "deletion_policy": empty,
                "halted": no,
            }
        ),
        documents=spark.range(1000).select(
            fn.lit("big").alias("cluster_id"),
            fn.concat(fn.lit("t/d"), n.cast("string")).alias("document"),
            no.alias("frozen"),
        ),
        owned=pairs.where("id % 79 != 0").withColumns(
            {
                "applied": value,
                "document": document,
                **nulls,
                **truths,
                **texts,
            }
        ),
    )
    _, decisions = planned(plan_frames, {"big": Rules(drift=DriftMode.CORRECT)})
    subjects = [entity(user=f"u{at}") for at in range(many)]
    documents = [f"t/d{at}" for at in range(1000)]
    owners = [Owner(document=name) for name in documents]
    column = limits_column
    records = {
        subject: OwnershipRecord(
            column(2000.0 + at % 5), (owners[at % 1000], None, None, None, None)
        )
        for at, subject in enumerate(subjects)
        if at % 79
    }
    claims = [
        Declaration(
            document=documents[at % 1000],
            entity=subject,
            limits=column(2000.0 + at % 5 + (at % 83 == 0)),
            path="p",
            line=at,
        )
        for at, subject in enumerate(subjects)
        if at % 89
    ]
    live = {
        subject: column(2000.0 + at % 5 + (at % 97 == 0))
        for at, subject in enumerate(subjects)
        if at % 101
    }
    plan = compare(
        desired=merge(claims),
        owned=OwnershipRecords(cluster_id="big", records=records),
        live=QuotaState(limits=live),
        rules=Rules(drift=DriftMode.CORRECT),
        now=NOW,
    )
    expected = {
        (
            r.cluster_id,
            canonical_parts_text(r.entity),
            r.level,
            r.key,
            r.action,
            r.cause,
            r.before,
            r.after,
            r.document,
            r.path,
            r.line,
            DAY,
        )
        for r in plan_rows(plan)
    }
    rows = native.rows(decisions).collect()
    assert len(rows) == len(expected) > 1_000
    assert {tuple(row) for row in rows} == expected


def limits_column(value: float) -> Limits:
    return (value, None, None, None, None)
