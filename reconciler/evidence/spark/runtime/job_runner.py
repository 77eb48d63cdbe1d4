"""One run of one job: opens lake and session, writes progress, and converts errors of Spark to readable messages."""

import re
import uuid
from collections.abc import Callable
from typing import Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # has no types
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from reconciler.base.clock import SystemClock
from reconciler.base.protocols import Progress
from reconciler.errors import KquotaError, SparkError
from reconciler.evidence.spark.runtime import jvm, progress, session
from reconciler.evidence.spark.runtime.session_settings import SessionSettings
from reconciler.evidence.store.files.object_store import opened as store_opened
from reconciler.evidence.store.lake import Lake

JobFunction = Callable[[SparkSession, Lake, Any, Progress], object]
"""The function of a job: session, lake, settings and progress. Its result is a frozen dataclass of bounded size."""

_SHOWN: Final = 800
_PY4J: Final = "An error occurred while calling"
_ERRORS: Final = "reconciler.errors."
_CAUSE: Final = "Caused by: "
_CLASS: Final = re.compile(r"^(?:[a-z]\w*\.)+[A-Z][\w$]*: ")


def run(
    name: str,
    job: JobFunction,
    lake: str,
    session_settings: SessionSettings,
    settings: object,
) -> Any:  # noqa: ANN401 - the job's result
    """Run a job in its own session, which is stopped before this returns.

    Raises:
        ConfigError: Java or the settings of the session are wrong.
        LakeError: The lake cannot be read or written.
        SparkError: Spark failed, or no session could be started.
    """
    clock = SystemClock()
    opened = Lake(store_opened(lake), clock=clock, run_id=uuid.uuid4().hex)
    lines = progress.ProgressWriter(clock)
    lines("starting Spark", 0, 0)
    with (
        session.opened(session_settings) as spark,
        progress.watched(spark, lines),
    ):
        lines(name, 0, 0)
        try:
            result = job(spark, opened, settings, lines)
        except (PySparkException, Py4JError, ConnectionError) as error:
            raise spark_error(
                error, name
            ) from error  # while the JVM still runs: it supplies the error text
    lines("done", 0, 0)
    return result


def spark_error(error: Exception, operation: str) -> KquotaError:
    """Convert an error of Spark to one sentence: its first line and its last cause; no Java stack."""
    try:
        # Connect errors contain the server's message; classic ones the JVM's message followed by its stack.
        text = (error.getMessage() if isinstance(error, PySparkException) else None) or str(error)
    except (OSError, Py4JError):
        text = ""
    if not text or isinstance(error, ConnectionError) or jvm.is_lost():
        return SparkError(
            f"{operation}: the JVM of Spark ended while it worked",
            hint="it may have had too little memory: try --memory 4g; units that were committed stay",
        )
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if lines and lines[0].startswith(_PY4J):
        lines = [_CLASS.sub("", lines[1].removeprefix(": ")), *lines[2:]] if lines[1:] else lines
    first = lines[0] if lines else type(error).__name__
    if errors := [line for line in lines if line.startswith(_ERRORS)]:  # raised in a Python worker
        first = errors[-1].partition(": ")[2]
    causes = [line for line in lines[1:] if line.startswith(_CAUSE)]
    if causes:
        first += f" ({_CLASS.sub('', causes[-1].removeprefix(_CAUSE))})"
    return SparkError(
        f"{operation}: {first[:_SHOWN]}",
        hint="units are committed whole; correct the cause and run it again",
    )
