"""Limits of tags resolved on Spark equal the rows of the core, over generated clusters in one job; a worker indexes limits once."""

import random
from copy import copy

import pytest
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession

from reconciler.evidence.spark.tables.schemas import struct
from reconciler.evidence.spark.usage import effective_limits as native
from reconciler.evidence.spark.usage.effective_limits import LimitIndex
from reconciler.quota.entity import entity
from reconciler.quota.entity_forms import canonical_text
from reconciler.quota.keys import Key
from reconciler.quota.precedence import Principal
from reconciler.quota.state import QuotaState, limits_of
from reconciler.usage.samples import (
    KEY_OF,
    TYPE_OF,
    QuotaType,
    ValueState,
    limit_state,
    limit_units,
)
from reconciler.usage.tables import QUOTA_ENTRY
from reconciler.usage.tags import Bucket, book, bucket_of, limit_of
from tests.evidence.spark import quota_cases
from tests.evidence.spark.quota_cases import entry_rows

pytestmark = pytest.mark.integration

BUCKETS = "cluster_id string, quota_type string, group_kind string, user string, client_id string, ip string"
CASES = 240


def units(key: Key, value: float | None) -> int | None:
    if value is None or limit_state(TYPE_OF[key], value) is not ValueState.FINITE:
        return None
    return limit_units(TYPE_OF[key], value)


def worlds() -> dict[str, tuple[QuotaState, list[Principal]]]:
    draw = random.Random(41)
    return {f"c{n}": (quota_cases.states(draw), quota_cases.clients(draw)) for n in range(CASES)}


def entries_of(spark: SparkSession, states: dict[str, QuotaState]) -> DataFrame:
    rows = [row for cluster, state in states.items() for row in entry_rows(cluster, state)]
    return spark.createDataFrame(rows, struct(QUOTA_ENTRY))


def test_effective_limits_of_tags_equal_those_of_the_core_row_by_row(spark: SparkSession) -> None:
    cases = worlds()
    entries = entries_of(spark, {cluster: state for cluster, (state, _) in cases.items()})
    bucket_keys: dict[tuple[str, QuotaType, Bucket], None] = {}
    for cluster, (_, principals) in cases.items():
        for principal in principals:
            for user, client_id in (
                (principal.user, principal.client_id),
                (principal.user, None),
                (None, principal.client_id),
                (None, None),
            ):
                for kind in QuotaType:
                    ip = principal.ip or "10.9.9.9" if kind is QuotaType.IP else ""
                    bucket_keys[cluster, kind, bucket_of(user or "", client_id or "", ip)] = None
    buckets = spark.createDataFrame(
        [(c, str(k), str(b.kind), b.user, b.client_id, b.ip) for c, k, b in bucket_keys], BUCKETS
    )
    rows = native.tags(buckets, entries)
    expected = []
    for cluster, kind, bucket in bucket_keys:
        key = KEY_OF[kind]
        got = limit_of(book(cases[cluster][0], key), bucket)
        expected.append(
            (
                cluster,
                str(kind),
                str(bucket.kind),
                bucket.user,
                bucket.client_id,
                bucket.ip,
                got[1] if got else None,
                units(key, got[1]) if got else None,
                canonical_text(got[0] if got else None),
            )
        )
    limits = rows.select(*native.BUCKET, "value", "quota_units", "source_entity")
    assert sorted(map(repr, map(tuple, limits.collect()))) == sorted(map(repr, expected))
    assert sum(row[6] is not None for row in expected) > 200


def test_two_values_for_one_pair_fail_the_job_and_never_multiply_rows(spark: SparkSession) -> None:
    state = QuotaState(limits={entity(user="alice"): limits_of({Key.PRODUCER_BYTE_RATE: 1.0})})
    entries = entries_of(spark, {"c": state})
    buckets = spark.createDataFrame([("c", "produce", "user", "alice", "", "")], BUCKETS)
    with pytest.raises(
        PythonException, match=r"a limit is given twice: c .*alice.*producer_byte_rate"
    ):
        native.tags(buckets, entries.unionAll(entries)).collect()


APP, KEY = entity(user="app"), Key.PRODUCER_BYTE_RATE


def sent_twice(spark: SparkSession, value: float) -> tuple[LimitIndex, LimitIndex]:
    """The index of one limit, as two tasks of one worker receive it."""
    rows = entry_rows("c", QuotaState().with_values([(APP, KEY, value)]))
    index = LimitIndex(spark.createDataFrame(rows, struct(QUOTA_ENTRY)))
    return copy(index), copy(index)


def test_tasks_of_one_process_share_the_index_of_equal_limits(spark: SparkSession) -> None:
    first, second = sent_twice(spark, 1000.0)
    assert first.of("c") is second.of("c")
    collected_again, _ = sent_twice(spark, 1000.0)
    assert collected_again.of("c") is first.of("c")


def test_tasks_with_other_limits_use_their_own_index(spark: SparkSession) -> None:
    first, first_again = sent_twice(spark, 1000.0)
    changed_index, _ = sent_twice(spark, 2000.0)
    values = [index.of("c")[APP][KEY].value for index in (first, changed_index, first_again, first)]
    assert values == [1000.0, 2000.0, 1000.0, 1000.0]
    assert changed_index.of("no cluster") == {}
