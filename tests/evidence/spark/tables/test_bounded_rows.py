"""Rows that reach the driver are bounded, and no other code of the package collects rows."""

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import reconciler.spark
from reconciler.errors import SparkError
from reconciler.evidence.spark.tables import bounded_rows

PACKAGE = Path(reconciler.spark.__file__).parent
GATHERS = re.compile(r"\.(?:collect|toPandas|toArrow|toLocalIterator|take|head|tail)\(")
ALLOWED = {"bounded.py", "warm.py"}


def test_only_the_bounded_module_collects_rows_on_the_driver() -> None:
    places = [
        f"{path.relative_to(PACKAGE)}:{number}: {line.strip()}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.name not in ALLOWED
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if GATHERS.search(line)
    ]
    assert not places, places


@pytest.mark.integration
def test_rows_up_to_the_bound_are_returned_and_one_more_is_an_error(spark: SparkSession) -> None:
    assert [row.id for row in bounded_rows.rows(spark.range(3), 3, "numbers")] == [0, 1, 2]
    with pytest.raises(SparkError, match="more than 2 numbers, too many for one report"):
        bounded_rows.rows(spark.range(3), 2, "numbers")
