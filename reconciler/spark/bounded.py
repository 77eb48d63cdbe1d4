"""The only way from a frame to the driver: rows up to a number that is known beforehand, or an error."""

from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Row

from reconciler.errors import SparkError


def rows(frame: DataFrame, most: int, what: str) -> list[Row]:
    """All rows of a frame that is small by nature.

    Args:
        frame: Rows for people, or a summary.
        most: More than so many are an error: nothing is cut off silently, and no driver runs out of memory.
        what: What they are, for that error.

    Raises:
        SparkError: There are more.
    """
    found = frame.limit(most + 1).collect()
    if len(found) > most:
        raise _too_many(most, what)
    return found


def arrow(frame: DataFrame, most: int, what: str) -> pa.Table:
    """As :func:`rows`, as an Arrow table: for many rows the quicker way."""
    found: Any = frame.limit(most + 1).toArrow()
    if found.num_rows > most:
        raise _too_many(most, what)
    return found


def _too_many(most: int, what: str) -> SparkError:
    return SparkError(
        f"there are more than {most:,} {what}, too many for one report",
        hint="ask for fewer clusters or a shorter window; tables in the lake have no such bound",
    )
