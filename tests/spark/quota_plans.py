"""What stands in the plan that Spark made of a transform over limits: operators that must not be there, and counts."""

import re

from pyspark.sql import DataFrame

FOUL = (
    "BatchEvalPython",
    "ArrowEvalPython",
    "CartesianProduct",
    "BroadcastNestedLoopJoin",
    "MapInPandas",
    "MapInArrow",
)


def text(frame: DataFrame) -> str:
    """The plan that will be executed; of a classic session."""
    return str(frame._jdf.queryExecution().executedPlan().toString())


def foul(frame: DataFrame) -> list[str]:
    """Operators that leave the JVM or multiply rows."""
    found = text(frame)
    return [name for name in FOUL if name in found]


def count(frame: DataFrame, pattern: str) -> int:
    """How often an operator stands there."""
    return len(re.findall(pattern, text(frame)))
