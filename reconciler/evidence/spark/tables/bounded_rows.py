"""The only way from a frame to the driver: rows up to a number that is known beforehand, or an error."""

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
        raise SparkError(
            f"there are more than {max_rows:,} {description}, too many for one report",
            hint="ask for fewer clusters or a shorter window; tables in the lake have no such bound",
        )
    return collected_rows
