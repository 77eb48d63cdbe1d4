"""Where a session runs, by its master or its class; no session is started here."""

import os
import re
from typing import Final

from pyspark.sql import SparkSession

_LOCAL: Final = re.compile(r"local(?:\[(?P<cores>\d+|\*)(?:,\d+)?\])?")


def local_cores(master: str) -> int | None:
    """How many threads a local master uses; ``None`` if it is none of this process (``local-cluster`` is one of many)."""
    match = _LOCAL.fullmatch(master)
    if match is None:
        return None
    cores = match["cores"] or "1"
    return (os.cpu_count() or 1) if cores == "*" else int(cores)


def submitted() -> bool:
    """Whether spark-submit started this process, and with it the JVM."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def is_connect(spark: SparkSession) -> bool:
    """Whether a session speaks to a Connect server: then it has no context, no JVM and no executed plans."""
    return type(spark).__module__.startswith("pyspark.sql.connect")
