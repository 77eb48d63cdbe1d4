"""A worker process indexes equal limits once, however often the job sends them, and never confuses two tables."""

from copy import copy

import pytest
from pyspark.sql import SparkSession

from reconciler.evidence.spark.limits.limit_index import LimitIndex
from reconciler.evidence.spark.tables.schemas import struct
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.state import QuotaState
from reconciler.usage.tables import QUOTA_ENTRY
from tests.evidence.spark.quota_cases import entry_rows

pytestmark = pytest.mark.integration

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
