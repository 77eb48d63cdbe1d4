"""The history of limits: since when they apply and who changed them, against plain loops over the quota snapshots."""

import itertools
import random
import re
from dataclasses import dataclass, field

import pytest
from pyspark.sql import DataFrame, SparkSession

from reconciler.evidence.spark.fleet import history
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
    values: dict[Entity, float] = field(default_factory=dict)

    @property
    def state(self) -> QuotaState:
        return QuotaState(
            limits={subject: limits_of({KEY: value}) for subject, value in self.values.items()}
        )


def looks(draw: random.Random) -> list[Look]:
    """Quota snapshots of a cluster."""
    values: dict[Entity, float] = {}
    observations = []
    at = BEGIN + draw.randrange(DAY_MS)
    for _ in range(draw.randint(1, 9)):
        at += draw.choice((HOUR, 5 * HOUR, 30 * HOUR))
        for subject in WHO:
            match draw.randrange(5):
                case 0:
                    values[subject] = draw.choice((1.0, 2.0, 3.0, float("nan"), 1e20))
                case 1:
                    values.pop(subject, None)
                case _:
                    pass
        observations.append(Look(at=at, values=dict(values)))
    return observations


def fleet() -> dict[str, list[Look]]:
    draw = random.Random(23)
    return {f"c{n}": looks(draw) for n in range(200)}


def frames(spark: SparkSession, of: dict[str, list[Look]]) -> tuple[DataFrame, DataFrame]:
    entries = [
        row
        for name, several in of.items()
        for n, look in enumerate(several)
        for row in entry_rows(name, look.state, snapshot_id=f"s{n}", at_ms=look.at)
    ]
    snapshots = [
        (name, f"s{n}", look.at, True, len(look.values), DAY)
        for name, several in of.items()
        for n, look in enumerate(several)
    ]
    return (
        spark.createDataFrame(entries, struct(QUOTA_ENTRY)),
        spark.createDataFrame(snapshots, struct(SNAPSHOT)),
    )


Step = tuple[int, int, float | None, float | None]


def steps(several: list[Look], who: Entity) -> list[Step]:
    """from, after, old and new value; computed plainly, snapshot by snapshot."""
    differences: list[Step] = []
    value: float | None = None
    last = 0
    for look in several:
        new = look.values.get(who)
        if repr(new) != repr(value):
            differences.append((look.at, last, value, new))
        value, last = new, look.at
    return differences


def test_a_step_is_a_difference_between_a_snapshot_and_the_one_before(spark: SparkSession) -> None:
    of = fleet()
    frame = history.limit_steps(*frames(spark, of))
    plans.of(frame).assert_native()
    exchange = r"Exchange hashpartitioning\(cluster_id#\d+, entity_json"
    assert len(re.findall(exchange, plans.of(frame).text)) == 1
    columns = ("cluster_id", "entity_json", "from_ms", "from_after_ms", "before", "after")
    rows = frame.select(*columns).collect()
    expected = [
        (name, canonical_text(who), *step)
        for name, several in of.items()
        for who in WHO
        for step in steps(several, who)
    ]
    assert sorted(map(repr, map(tuple, rows))) == sorted(map(repr, expected))
    assert len(expected) > 500


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
    differences = history.limit_steps(*frames(spark, {"c": several}))
    changes = history.changes(differences, spark.createDataFrame(log, struct(APPLY_LOG)))
    assert changes.schema.simpleString() == struct(QUOTA_CHANGE).simpleString()
    rows = changes.orderBy("entity_json", "from_ms").select(
        "entity_json", "from_ms", "to_ms", "before", "after", "cause", "commit", "writer"
    )
    return [tuple(row) for row in rows.collect()]


def test_every_snapshot_can_be_reconstructed_from_the_changes(spark: SparkSession) -> None:
    of = fleet()
    differences = history.limit_steps(*frames(spark, of))
    changes = history.changes(differences, spark.createDataFrame([], struct(APPLY_LOG)))
    plans.of(changes).assert_native()
    rows: dict[tuple[str, str], list[object]] = {}
    for row in changes.orderBy("from_ms").collect():
        rows.setdefault((row["cluster_id"], row["entity_json"]), []).append(row)
    for name, several in of.items():
        for who in WHO:
            entity_changes = rows.get((name, canonical_text(who)), [])
            for change, then in itertools.pairwise(entity_changes):
                assert change["to_ms"] == then["from_ms"]
                assert repr(change["after"]) == repr(then["before"])
            assert not entity_changes or entity_changes[-1]["to_ms"] is None
            for look in several:
                now = [row["after"] for row in entity_changes if row["from_ms"] <= look.at]
                assert repr(now[-1] if now else None) == repr(look.values.get(who))


def test_a_change_is_attributed_to_kquota_only_if_the_audit_log_has_that_value_at_that_time(
    spark: SparkSession,
) -> None:
    own_entity, external_entity, refused_entity = WHO[0], WHO[2], WHO[3]
    day = [BEGIN + n * 48 * HOUR for n in range(4)]
    several = [
        Look(at=day[0], values={own_entity: 1.0}),
        Look(
            at=day[1],
            values={own_entity: 2.0, external_entity: 5.0, refused_entity: 7.0},
        ),
        Look(at=day[2], values={external_entity: 5.0, refused_entity: 8.0}),
    ]
    log = [
        log_row(own_entity, day[1] - HOUR, 2.000_000_5),
        log_row(own_entity, day[2] - HOUR, None),
        log_row(external_entity, day[1] - HOUR, 6.0),
        log_row(refused_entity, day[1] - HOUR, 7.0, outcome="REJECTED"),
        log_row(refused_entity, day[0] - HOUR, 8.0),
    ]
    name = canonical_text
    assert sorted(changed(spark, several, log), key=repr) == sorted(
        [
            (name(own_entity), day[0], day[1], None, 1.0, "first-seen", "", ""),
            (name(own_entity), day[1], day[2], 1.0, 2.0, "applied-by-us", "abc123", "ci"),
            (name(own_entity), day[2], None, 2.0, None, "applied-by-us", "abc123", "ci"),
            (name(external_entity), day[1], None, None, 5.0, "drift-external", "", ""),
            (name(refused_entity), day[1], day[2], None, 7.0, "drift-external", "", ""),
            (name(refused_entity), day[2], None, 7.0, 8.0, "drift-external", "", ""),
        ],
        key=repr,
    )


def test_three_changes_within_a_day_are_flapping_and_the_first_snapshot_does_not_count(
    spark: SparkSession,
) -> None:
    who = WHO[0]
    at = [BEGIN, *(BEGIN + 100 * HOUR + n * 11 * HOUR for n in range(3)), BEGIN + 200 * HOUR]
    several = [Look(at=when, values={who: float(n)}) for n, when in enumerate(at, start=1)]
    causes = [row[5] for row in changed(spark, several, [])]
    assert causes == ["first-seen", "flapping", "flapping", "flapping", "drift-external"]
    apart = [BEGIN, *(BEGIN + 100 * HOUR + n * 12 * HOUR for n in range(3))]
    several = [Look(at=when, values={who: float(n)}) for n, when in enumerate(apart)]
    assert [row[5] for row in changed(spark, several, [])][1:] == ["drift-external"] * 3


def test_declared_limits_that_the_cluster_does_not_have_are_manifest_ahead(
    spark: SparkSession,
) -> None:
    same, different, new, twice = WHO[0], WHO[1], WHO[2], WHO[3]
    several = [Look(at=BEGIN, values={same: 2.000_000_5, different: 1.0})]
    differences = history.limit_steps(*frames(spark, {"c": several}))
    claims = [
        (same, 2.0, "d/1"),
        (different, 3.0, "d/2"),
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
    changes = history.unapplied_changes(differences, desired, at)
    assert sorted(
        (row["before"] or 0.0, row["after"], row["writer"], row["cause"])
        for row in changes.collect()
    ) == [
        (0.0, 4.0, "d/3", "manifest-ahead"),
        (1.0, 3.0, "d/2", "manifest-ahead"),
    ]
    assert ABSENT is False
