"""The only way from a frame to the driver: rows up to a given maximum, or an error."""

from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, Row

from reconciler.errors import SparkError

MOST_CLUSTERS: Final = 100_000


def rows(frame: DataFrame, max_rows: int, description: str) -> list[Row]:
    """Collect all rows of a small frame.

    Args:
        frame: Rows for people, or a summary.
        max_rows: Maximum; more is an error, so rows are never dropped silently and the driver's memory is bounded.
        description: Noun for the rows in that error.

    Raises:
        SparkError: There are more rows.
    """
    collected_rows = frame.limit(max_rows + 1).collect()
    _check_number(len(collected_rows), max_rows, description)
    return collected_rows


def table(frame: DataFrame, max_rows: int, description: str) -> pa.Table:
    """Collect all rows of a frame as columns; arguments and errors as for :func:`rows`."""
    collected_rows = frame.limit(max_rows + 1).toArrow()
    _check_number(collected_rows.num_rows, max_rows, description)
    return collected_rows


def _check_number(number: int, max_rows: int, description: str) -> None:
    if number > max_rows:
        raise SparkError(
            f"there are more than {max_rows:,} {description}, too many for one report",
            hint="ask for fewer clusters or a shorter window; tables in the lake have no such bound",
        )
