"""The checks of executed plans find the operators that they look for."""

import pytest
from pyspark.sql import SparkSession, Window
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


def test_window_functions_over_one_order_are_accepted_and_over_two_are_reported(
    spark: SparkSession,
) -> None:
    rows = spark.range(9).select("id", (fn.col("id") % 2).alias("k"), (-fn.col("id")).alias("n"))
    over = Window.partitionBy("k").orderBy("id")
    once = rows.withColumn("a", fn.sum("id").over(over)).withColumn("b", fn.lag("a").over(over))
    plans.of(once).assert_one_window_pass()
    twice = once.withColumn("c", fn.sum("id").over(Window.partitionBy("n").orderBy("k")))
    with pytest.raises(AssertionError, match="Window"):
        plans.of(twice).assert_one_window_pass()


def test_an_adaptive_plan_is_checked_as_it_was_executed(spark: SparkSession) -> None:
    frame = spark.range(9).groupBy((fn.col("id") % 2).alias("k")).count()
    assert plans.of(frame).count("Exchange") == 1
    frame.collect()
    assert plans.of(frame).count("Exchange") == 1
