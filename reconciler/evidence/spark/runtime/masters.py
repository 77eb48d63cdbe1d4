"""Where a session runs, according to its master or class; starts no session."""

import os
import re
from typing import Final

from pyspark.sql import SparkSession

_LOCAL: Final = re.compile(r"local(?:\[(?P<cores>\d+|\*)(?:,\d+)?\])?")


def local_cores(master: str) -> int | None:
    """Return the number of threads of a local master; ``None`` if the master is not ``local`` (``local-cluster`` runs several processes)."""
    match = _LOCAL.fullmatch(master)
    if match is None:
        return None
    cores = match["cores"] or "1"
    return (os.cpu_count() or 1) if cores == "*" else int(cores)


def submitted() -> bool:
    """Whether spark-submit started this process, and with it the JVM."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def is_connect(spark: SparkSession) -> bool:
    """Whether a session is connected to a Connect server: then it has no context, no JVM and no executed plans."""
    return type(spark).__module__.startswith("pyspark.sql.connect")
