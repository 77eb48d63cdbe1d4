"""The plan of a fleet on Spark has the rows of the core, over generated clusters in one job."""

import random
from collections import Counter
from dataclasses import replace

import pytest
from pyspark.errors import SparkRuntimeException
from pyspark.sql import DataFrame, SparkSession

from reconciler.quota.entity import DEFAULT
from reconciler.quota.keys import Key
from reconciler.quota.plan import compare
from reconciler.quota.policy import Cause
from reconciler.quota.rows import plan_rows
from reconciler.spark import plan as native
from reconciler.spark import plan_sums
from reconciler.spark.schemas import struct
from reconciler.spark.sides import Intended, Sides, sides
from reconciler.usage.tables import PLAN_CONFLICT, PLAN_ROW, QUOTA_ENTRY, entity_text, named_text
from tests.quota.strategies import NOW, World
from tests.spark import plan_cases, quota_cases
from tests.spark import quota_plans as plans
from tests.spark.quota_cases import DAY

pytestmark = pytest.mark.integration

CASES = 400


def sides_of(spark: SparkSession, worlds: dict[str, World]) -> Sides:
    live = spark.createDataFrame(
        [row for name, one in worlds.items() for row in quota_cases.entry_rows(name, one.live)],
        struct(QUOTA_ENTRY),
    )
    fleet = {
        name: Intended(desired=one.desired, owned=one.owned, rules=one.rules, day=DAY)
        for name, one in worlds.items()
    }
    return sides(spark, live, fleet, now=NOW)


def planned(given: Sides) -> tuple[DataFrame, DataFrame]:
    different = native.differences(given).persist()
    found = native.described(different, given)
    table = native.verdicts(found, [row[0] for row in native.patterns(found).collect()])
    return different, native.decided(found, table)


@pytest.fixture(scope="module")
def worlds() -> dict[str, World]:
    draw = random.Random(6)
    return {f"c{n}": plan_cases.world(draw, f"c{n}") for n in range(CASES)}


def test_the_rows_are_those_of_the_core(spark: SparkSession, worlds: dict[str, World]) -> None:
    given = sides_of(spark, worlds)
    different, found = planned(given)
    rows = native.rows(found)
    assert rows.schema == struct(PLAN_ROW)
    assert plans.foul(rows) == []
    expected, causes, doubted = [], Counter(), []
    for name, one in worlds.items():
        plan = compare(
            desired=one.desired, owned=one.owned, live=one.live, rules=one.rules, now=NOW
        )
        for row in plan_rows(plan):
            causes[row.cause] += 1
            expected.append(
                (row.cluster_id, named_text(row.entity), row.level, row.key, row.action, row.cause, row.before,
                 row.after, row.document, row.path, row.line, DAY)
            )  # fmt: skip
        doubted += [
            (name, entity_text(conflict.entity), str(conflict.key), claim.limits[list(Key).index(conflict.key)],
             claim.document, claim.path, claim.line_of(conflict.key), DAY)
            for conflict in plan.conflicts
            for claim in conflict.claims
        ]  # fmt: skip
    assert sorted(map(repr, map(tuple, rows.collect()))) == sorted(map(repr, expected))
    assert len(causes) >= 9, causes
    claims = native.conflicts(different, given)
    assert claims.schema == struct(PLAN_CONFLICT)
    assert sorted(map(repr, map(tuple, claims.collect()))) == sorted(map(repr, doubted))
    assert doubted


def test_the_sums_of_each_cluster_are_those_of_the_core(
    spark: SparkSession, worlds: dict[str, World]
) -> None:
    given = sides_of(spark, worlds)
    different, found = planned(given)
    sums = plan_sums.totals(given, different, found)
    counts = plan_sums.verdict_counts(found)
    assert plans.foul(sums) == plans.foul(counts) == []
    expected, verdicts = {}, Counter()
    for name, one in worlds.items():
        plan = compare(
            desired=one.desired, owned=one.owned, live=one.live, rules=one.rules, now=NOW
        )
        changes = [
            c for c in plan.changes if c.cause not in {Cause.OVERRIDE, Cause.OVERRIDE_EXPIRED}
        ]
        expected[name] = (
            plan.documents, plan.desired_pairs, plan.owned_pairs, plan.in_sync, len(plan.conflicts),
            sum(c.removes for c in changes), sum(DEFAULT in c.entity for c in changes),
        )  # fmt: skip
        for change in plan.changes:
            verdicts[name, "change", str(change.cause), change.action, False] += 1
        for finding in plan.findings:
            verdicts[name, "finding", str(finding.cause), str(finding.action), finding.ignored] += 1
    assert {row[0]: tuple(row)[1:] for row in sums.collect()} == expected
    assert {tuple(row)[:5]: row["pairs"] for row in counts.collect()} == verdicts


def test_two_looks_at_one_pair_end_the_job(spark: SparkSession) -> None:
    draw = random.Random(1)
    worlds = {"twice": plan_cases.world(draw, "twice")}
    assert worlds["twice"].live.limits
    given = sides_of(spark, worlds)
    doubled = replace(given, live=given.live.unionAll(given.live))
    with pytest.raises(SparkRuntimeException, match=native.TWICE):
        native.differences(doubled).collect()


def test_a_cluster_without_rules_ends_the_job_instead_of_vanishing(spark: SparkSession) -> None:
    worlds = {f"c{n}": plan_cases.world(random.Random(n), f"c{n}") for n in range(2)}
    given = sides_of(spark, worlds)
    short = replace(given, orders=given.orders.where("cluster_id = 'c0'"))
    with pytest.raises(SparkRuntimeException, match="no rules for c1"):
        native.described(native.differences(short), short).collect()


def test_pairs_are_grouped_once_and_nothing_is_joined_before(
    spark: SparkSession, worlds: dict[str, World]
) -> None:
    given = sides_of(spark, worlds)
    found = native.differences(given)
    assert plans.foul(found) == []
    assert plans.count(found, r"Exchange hashpartitioning") == 1
    assert plans.count(found, r"\bSort(MergeJoin|Aggregate)?\b") == 0
