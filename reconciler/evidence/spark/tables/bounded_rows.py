"""The only way from a frame to the driver: rows up to a number that is known beforehand, or an error."""

from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Row

from reconciler.errors import SparkError


def rows(frame: DataFrame, max_rows: int, description: str) -> list[Row]:
    """All rows of a frame that is small by nature.

    Args:
        frame: Rows for people, or a summary.
        max_rows: More than so many are an error: nothing is cut off silently, and no driver runs out of memory.
        description: What they are, for that error.

    Raises:
        SparkError: There are more.
    """
    collected_rows = frame.limit(max_rows + 1).collect()
    if len(collected_rows) > max_rows:
        raise _too_many(max_rows, description)
    return collected_rows


def arrow(frame: DataFrame, max_rows: int, description: str) -> pa.Table:
    """As :func:`rows`, as an Arrow table: for many rows the quicker way."""
    table: Any = frame.limit(max_rows + 1).toArrow()
    if table.num_rows > max_rows:
        raise _too_many(max_rows, description)
    return table


def _too_many(max_rows: int, description: str) -> SparkError:
    return SparkError(
        f"there are more than {max_rows:,} {description}, too many for one report",
        hint="ask for fewer clusters or a shorter window; tables in the lake have no such bound",
    )
