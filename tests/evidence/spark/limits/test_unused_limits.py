"""Limits that apply to no client, against the core evaluated client by client, over generated clusters in one job."""

import random
from dataclasses import dataclass

import pytest
from pyspark.sql import SparkSession

from reconciler.evidence.spark.limits.unused_limits import (
    ObservedClients,
    UnusedReason,
    find_unused_limits,
)
from reconciler.evidence.spark.tables.schemas import struct
from reconciler.quota.entity import DEFAULT, entity
from reconciler.quota.entity_forms import canonical_text
from reconciler.quota.keys import COLUMNS, Key
from reconciler.quota.precedence import Principal, candidates, ip_candidates, resolve
from reconciler.quota.state import QuotaState, limits_of
from reconciler.usage.samples import TYPE_OF, QuotaType, ValueState, limit_state
from reconciler.usage.tables import DEAD_QUOTA, QUOTA_ENTRY
from reconciler.usage.tags import Bucket, bucket_of
from tests.evidence.spark import quota_cases
from tests.evidence.spark.quota_cases import DAY, entry_rows

pytestmark = pytest.mark.integration

SINCE = 1000
CLIENTS = "cluster_id string, user string, client_id string, ip string, last_seen_ms bigint"
BUCKETS = "cluster_id string, quota_type string, group_kind string, user string, client_id string, ip string, last_seen_ms bigint"
MEASURED = "cluster_id string, quota_type string"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    state: QuotaState
    last_seen: dict[Principal, int | None]


def cases() -> dict[str, Case]:
    draw = random.Random(17)
    return {
        f"c{n}": Case(
            state=quota_cases.states(draw),
            last_seen={
                principal: draw.choice((None, 5, 999, 1000, 2000))
                for principal in quota_cases.clients(draw)
            },
        )
        for n in range(200)
    }


def unlimited(key: Key, value: float) -> bool:
    return limit_state(TYPE_OF[key], value) is ValueState.UNLIMITED


def expected(case: Case) -> list[tuple[object, ...]]:
    """Every limit checked with every client, plainly."""
    rows = []
    for subject, key, value in case.state.pairs():
        times: list[int] = []
        wins, matters, met = False, False, False
        for client, last in case.last_seen.items():
            ladder = candidates(client.user, client.client_id) + (
                ip_candidates(client.ip) if client.ip else ()
            )
            recent = last is None or last >= SINCE
            met |= recent and subject in ladder
            got = next(
                (limit for limit in resolve(case.state, client).effective if limit.key is key), None
            )
            if got is None or got.source != subject:
                continue
            times += [last] if last is not None else []
            if recent:
                wins = True
                steps = (value, *(lost.value for lost in got.overridden))
                matters |= any(not unlimited(key, step) for step in steps)
        if matters:
            continue
        reason = (
            UnusedReason.UNLIMITED_EQUIVALENT
            if wins
            else UnusedReason.SHADOWED
            if met
            else UnusedReason.NEVER_SEEN
        )
        rows.append(
            (canonical_text(subject), str(key), value, str(reason), max(times, default=None), DAY)
        )
    return rows


def test_unused_limits_apply_to_no_client_of_the_list(spark: SparkSession) -> None:
    worlds = cases()
    rows = [row for name, case in worlds.items() for row in entry_rows(name, case.state)]
    client_rows = [
        (name, who.user or "", who.client_id or "", who.ip or "", last)
        for name, case in worlds.items()
        for who, last in case.last_seen.items()
    ]
    frame = find_unused_limits(
        spark.createDataFrame(rows, struct(QUOTA_ENTRY)),
        ObservedClients(
            clients=spark.createDataFrame(client_rows, CLIENTS),
            buckets=spark.createDataFrame([], BUCKETS),
            measured=spark.createDataFrame([], MEASURED),
            since_ms=SINCE,
        ),
    )
    assert frame.schema.simpleString() == struct(DEAD_QUOTA).simpleString()
    expected_rows = [(name, *row) for name, case in worlds.items() for row in expected(case)]
    assert sorted(map(repr, map(tuple, frame.collect()))) == sorted(map(repr, expected_rows))
    assert {row[4] for row in expected_rows} == {"never_seen", "shadowed", "unlimited_equivalent"}


def test_tags_show_which_limits_were_never_used_and_leave_the_others_undecided(
    spark: SparkSession,
) -> None:
    key, fetch = Key.PRODUCER_BYTE_RATE, Key.CONSUMER_BYTE_RATE
    limits = {
        entity(user="used"): limits_of({key: 10.0, fetch: 10.0}),
        entity(user="gone"): limits_of({key: 10.0}),
        entity(user="split"): limits_of({key: 10.0}),
        entity(user="split", client_id=DEFAULT): limits_of({key: 5.0}),
        entity(client_id="free"): limits_of({key: 1e20}),
        entity(user=""): limits_of({key: 1.0}),
    }
    buckets: dict[Bucket, int] = {
        bucket_of("used"): 2000,
        bucket_of("gone"): 10,
        bucket_of("split", "a"): 2000,
        bucket_of("", "free"): 2000,
    }
    produce = str(QuotaType.PRODUCE)
    frame = find_unused_limits(
        spark.createDataFrame(
            list(entry_rows("c", QuotaState(limits=limits))), struct(QUOTA_ENTRY)
        ),
        ObservedClients(
            clients=None,
            buckets=spark.createDataFrame(
                [
                    ("c", produce, str(b.kind), b.user, b.client_id, b.ip, at)
                    for b, at in buckets.items()
                ],
                BUCKETS,
            ),
            measured=spark.createDataFrame([("c", produce)], MEASURED),
            since_ms=SINCE,
        ),
    )
    reasons = {
        (row["entity_json"], row["quota_key"]): (row["reason"], row["last_effective_ms"])
        for row in frame.collect()
    }
    assert reasons == {
        (canonical_text(entity(user="used")), str(fetch)): ("no_data", None),
        (canonical_text(entity(user="gone")), str(key)): ("never_seen", 10),
        (canonical_text(entity(user="split")), str(key)): ("no_data", None),
        (canonical_text(entity(user="")), str(key)): ("never_seen", None),
    }
    assert len(COLUMNS) == 5
