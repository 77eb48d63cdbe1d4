"""Since when limits hold, and who changed them: against plain loops over the looks."""

import itertools
import random
import re
from dataclasses import dataclass, field

import pytest
from pyspark.sql import DataFrame, SparkSession

from reconciler.evidence.spark.fleet import history
from reconciler.evidence.spark.tables import limit_validity
from reconciler.evidence.spark.tables.schemas import struct
from reconciler.quota.entity import ABSENT, DEFAULT, Entity, entity
from reconciler.quota.entity_forms import canonical_text
from reconciler.quota.keys import Key
from reconciler.quota.state import QuotaState, limits_of
from reconciler.usage.samples import DAY_MS
from reconciler.usage.tables import (
    APPLY_LOG,
    DESIRED_ENTRY,
    QUOTA_CHANGE,
    QUOTA_ENTRY,
    QUOTA_VALIDITY,
    SNAPSHOT,
)
from tests.evidence.spark import plans
from tests.evidence.spark.quota_cases import DAY, entry_rows

pytestmark = pytest.mark.integration

KEY = Key.PRODUCER_BYTE_RATE
HOUR = 3_600_000
BEGIN = 1_793_491_200_000
WHO = (
    entity(user="alice"),
    entity(user="alice", client_id="app"),
    entity(user=DEFAULT),
    entity(client_id="app"),
    entity(client_id=DEFAULT),
    entity(user="alice", client_id=DEFAULT),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    at: int
    complete: bool
    values: dict[Entity, float] = field(default_factory=dict)

    @property
    def state(self) -> QuotaState:
        return QuotaState(
            limits={one: limits_of({KEY: value}) for one, value in self.values.items()}
        )


def looks(draw: random.Random) -> list[Look]:
    """A cluster looked at some times; an incomplete look misses some."""
    values: dict[Entity, float] = {}
    found = []
    at = BEGIN + draw.randrange(DAY_MS)
    for _ in range(draw.randint(1, 9)):
        at += draw.choice((HOUR, 5 * HOUR, 30 * HOUR))
        for one in WHO:
            match draw.randrange(5):
                case 0:
                    values[one] = draw.choice((1.0, 2.0, 3.0, float("nan"), 1e20))
                case 1:
                    values.pop(one, None)
                case _:
                    pass
        complete = draw.random() < 0.75
        seen = (
            dict(values) if complete else {k: v for k, v in values.items() if draw.random() < 0.5}
        )
        found.append(Look(at=at, complete=complete, values=seen))
    return found


def fleet() -> dict[str, list[Look]]:
    draw = random.Random(23)
    return {f"c{n}": looks(draw) for n in range(200)}


def frames(spark: SparkSession, of: dict[str, list[Look]]) -> tuple[DataFrame, DataFrame]:
    entries = [
        row
        for name, several in of.items()
        for n, one in enumerate(several)
        for row in entry_rows(name, one.state, snapshot_id=f"s{n}", at_ms=one.at)
    ]
    snapshots = [
        (name, f"s{n}", one.at, one.complete, len(one.values), DAY)
        for name, several in of.items()
        for n, one in enumerate(several)
    ]
    return (
        spark.createDataFrame(entries, struct(QUOTA_ENTRY)),
        spark.createDataFrame(snapshots, struct(SNAPSHOT)),
    )


Span = tuple[float, int, int, int | None, int | None]


def spans(several: list[Look], who: Entity) -> list[Span]:
    """value, from, after, to, to_after; plainly, look by look."""
    found: list[Span] = []
    held: tuple[float, int, int, int] | None = None  # value, from, after, last seen
    last_whole = 0
    for one in several:
        value = one.values.get(who)
        if value is None:
            if one.complete and held is not None:
                found.append((*held[:3], one.at, held[3]))
                held = None
        elif held is None:
            held = (value, one.at, last_whole, one.at)
        elif repr(value) == repr(held[0]):
            held = (*held[:3], one.at)
        else:
            found.append((*held[:3], one.at, held[3]))
            held = (value, one.at, held[3], one.at)
        last_whole = one.at if one.complete else last_whole
    return [*found, *([(*held[:3], None, None)] if held is not None else [])]


def test_validity_begins_at_the_look_that_saw_it_and_only_complete_looks_end_it(
    spark: SparkSession,
) -> None:
    of = fleet()
    found = limit_validity.quota_validity(*frames(spark, of))
    assert found.schema == struct(QUOTA_VALIDITY)
    plans.of(found).assert_native()
    assert (
        len(
            re.findall(
                r"Exchange hashpartitioning\(cluster_id#\d+, entity_json", plans.of(found).text
            )
        )
        == 1
    )
    assert (
        len(
            re.findall(
                r"\bSort \[cluster_id#\d+ ASC NULLS FIRST, entity_json", plans.of(found).text
            )
        )
        == 1
    )
    rows = found.select(
        "cluster_id",
        "entity_json",
        "value",
        "valid_from_ms",
        "valid_from_after_ms",
        "valid_to_ms",
        "valid_to_after_ms",
    ).collect()
    wanted = [
        (name, canonical_text(who), *one)
        for name, several in of.items()
        for who in WHO
        for one in spans(several, who)
    ]
    assert sorted(map(repr, map(tuple, rows))) == sorted(map(repr, wanted))
    assert len(wanted) > 500


LogRow = tuple[object, ...]


def log_row(who: Entity, at: int, after: float | None, *, outcome: str = "APPLIED") -> LogRow:
    return (
        "c",
        at,
        "abc123",
        "sha256:1",
        canonical_text(who),
        str(KEY),
        "update",
        None,
        after,
        outcome,
        "ci",
        DAY,
    )


def changed(
    spark: SparkSession, several: list[Look], log: list[LogRow]
) -> list[tuple[object, ...]]:
    made = limit_validity.quota_validity(*frames(spark, {"c": several}))
    found = history.changes(made, spark.createDataFrame(log, struct(APPLY_LOG)))
    assert found.schema == struct(QUOTA_CHANGE)
    rows = found.orderBy("entity_json", "from_ms").select(
        "entity_json", "from_ms", "to_ms", "before", "after", "cause", "commit", "writer"
    )
    return [tuple(row) for row in rows.collect()]


def test_every_look_can_be_read_back_from_the_changes(spark: SparkSession) -> None:
    of = fleet()
    made = limit_validity.quota_validity(*frames(spark, of))
    found = history.changes(made, spark.createDataFrame([], struct(APPLY_LOG)))
    plans.of(found).assert_native()
    rows: dict[tuple[str, str], list[object]] = {}
    for row in found.orderBy("from_ms").collect():
        rows.setdefault((row["cluster_id"], row["entity_json"]), []).append(row)
    for name, several in of.items():
        for who in WHO:
            mine = rows.get((name, canonical_text(who)), [])
            for one, then in itertools.pairwise(mine):
                assert one["to_ms"] == then["from_ms"]
                assert repr(one["after"]) == repr(then["before"])
            assert not mine or mine[-1]["to_ms"] is None
            for look in several:
                now = [row["after"] for row in mine if row["from_ms"] <= look.at]
                if look.complete or who in look.values:
                    assert repr(now[-1] if now else None) == repr(look.values.get(who))


def test_a_change_is_ours_only_if_the_audit_log_has_that_value_at_that_time(
    spark: SparkSession,
) -> None:
    ours, theirs, refused = WHO[0], WHO[2], WHO[3]
    day = [BEGIN + n * 48 * HOUR for n in range(4)]
    several = [
        Look(at=day[0], complete=True, values={ours: 1.0}),
        Look(at=day[1], complete=True, values={ours: 2.0, theirs: 5.0, refused: 7.0}),
        Look(at=day[2], complete=True, values={theirs: 5.0, refused: 8.0}),
    ]
    log = [
        log_row(ours, day[1] - HOUR, 2.000_000_5),
        log_row(ours, day[2] - HOUR, None),
        log_row(theirs, day[1] - HOUR, 6.0),
        log_row(refused, day[1] - HOUR, 7.0, outcome="REJECTED"),
        log_row(refused, day[0] - HOUR, 8.0),
    ]
    name = canonical_text
    assert sorted(changed(spark, several, log), key=repr) == sorted(
        [
            (name(ours), day[0], day[1], None, 1.0, "first-seen", "", ""),
            (name(ours), day[1], day[2], 1.0, 2.0, "applied-by-us", "abc123", "ci"),
            (name(ours), day[2], None, 2.0, None, "applied-by-us", "abc123", "ci"),
            (name(theirs), day[1], None, None, 5.0, "drift-external", "", ""),
            (name(refused), day[1], day[2], None, 7.0, "drift-external", "", ""),
            (name(refused), day[2], None, 7.0, 8.0, "drift-external", "", ""),
        ],
        key=repr,
    )


def test_three_changes_within_a_day_are_flapping_and_the_first_look_is_none(
    spark: SparkSession,
) -> None:
    who = WHO[0]
    at = [BEGIN, *(BEGIN + 100 * HOUR + n * 11 * HOUR for n in range(3)), BEGIN + 200 * HOUR]
    several = [
        Look(at=when, complete=True, values={who: float(n)}) for n, when in enumerate(at, start=1)
    ]
    causes = [row[5] for row in changed(spark, several, [])]
    assert causes == ["first-seen", "flapping", "flapping", "flapping", "drift-external"]
    apart = [BEGIN, *(BEGIN + 100 * HOUR + n * 12 * HOUR for n in range(3))]
    several = [Look(at=when, complete=True, values={who: float(n)}) for n, when in enumerate(apart)]
    assert [row[5] for row in changed(spark, several, [])][1:] == ["drift-external"] * 3


def test_what_documents_ask_for_and_the_cluster_has_not_is_ahead(spark: SparkSession) -> None:
    same, other, new, twice = WHO[0], WHO[1], WHO[2], WHO[3]
    several = [Look(at=BEGIN, complete=True, values={same: 2.000_000_5, other: 1.0})]
    made = limit_validity.quota_validity(*frames(spark, {"c": several}))
    claims = [
        (same, 2.0, "d/1"),
        (other, 3.0, "d/2"),
        (new, 4.0, "d/3"),
        (twice, 1.0, "d/4"),
        (twice, 2.0, "d/5"),
    ]
    desired = spark.createDataFrame(
        [
            ("c", canonical_text(who), str(KEY), value, doc, "a.yaml", 1, "", False, DAY)
            for who, value, doc in claims
        ],
        struct(DESIRED_ENTRY),
    )
    at = spark.createDataFrame([("c", BEGIN)], "cluster_id string, look_ms bigint")
    found = history.ahead(made, desired, at)
    assert sorted(
        (row["before"] or 0.0, row["after"], row["writer"], row["cause"]) for row in found.collect()
    ) == [
        (0.0, 4.0, "d/3", "manifest-ahead"),
        (1.0, 3.0, "d/2", "manifest-ahead"),
    ]
    assert ABSENT is False
