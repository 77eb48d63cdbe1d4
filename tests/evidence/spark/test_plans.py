"""The checks of executed plans find the operators that they look for."""

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from tests.evidence.spark import plans

pytestmark = pytest.mark.integration


def test_the_check_reports_python_for_each_row(spark: SparkSession) -> None:
    slow = fn.udf(lambda value: value + 1, "bigint")
    with pytest.raises(AssertionError, match=r"(?:Batch|Arrow)EvalPython"):
        plans.of(spark.range(3).select(slow("id"))).assert_native()


def test_the_check_reports_joins_that_compare_everything(spark: SparkSession) -> None:
    first, second = spark.range(3).toDF("a"), spark.range(3).toDF("b")
    for joined in (first.join(second, first.a < second.b), first.crossJoin(second.hint("merge"))):
        with pytest.raises(AssertionError, match=r"CartesianProduct|BroadcastNestedLoopJoin"):
            plans.of(joined).assert_native()
    plans.of(first.join(second, first.a == second.b)).assert_native()


def test_an_adaptive_plan_is_checked_as_it_was_executed(spark: SparkSession) -> None:
    frame = spark.range(9).groupBy((fn.col("id") % 2).alias("k")).count()
    assert plans.of(frame).count("Exchange") == 1
    frame.collect()
    assert plans.of(frame).count("Exchange") == 1
