"""Runs the tasks of an analysis on Spark: it distributes their numbers, and each worker runs its tasks as this machine would.

No sample becomes a row of Spark: workers read the files themselves, with credentials of their own.
"""

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # has no types
from pyspark.errors import PySparkException
from pyspark.serializers import CPickleSerializer
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from reconciler.base.protocols import Progress
from reconciler.errors import KquotaError, SparkError
from reconciler.evidence.analysis.engine import Task, lake_at
from reconciler.evidence.spark import jvm, session
from reconciler.evidence.spark.session_settings import SessionSettings
from reconciler.evidence.store.files.address import LakeAddress

AT_ONCE: Final = 200
"""Maximum number of tasks of one job of Spark: their results are in the driver's memory together, and progress is by jobs."""

_SHOWN: Final = 800
_PY4J: Final = "An error occurred while calling"
_ERRORS: Final = "reconciler.errors."
_CAUSE: Final = "Caused by: "
_CLASS: Final = re.compile(r"^(?:[a-z]\w*\.)+[A-Z][\w$]*: ")

_SERIALIZER: Final[Any] = CPickleSerializer()

Batches = Iterator[pa.RecordBatch]


class SparkEngine:
    """Runs tasks on a session of Spark; :class:`reconciler.evidence.analysis.engine.Engine`."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def run(
        self, at: LakeAddress, tasks: Sequence[Task], schema: pa.Schema, progress: Progress
    ) -> Iterator[pa.Table]:
        """Yield the results of jobs of Spark, each with the rows of many tasks.

        Raises:
            SparkError: Spark failed, or a task did.
        """
        for begin in range(0, len(tasks), AT_ONCE):
            part = tasks[begin : begin + AT_ONCE]
            encoded = [_SERIALIZER.dumps(task) for task in part]
            running = _running(at, encoded, schema)
            try:
                numbers = self._spark.range(0, len(part), 1, len(part))
                rows = numbers.mapInArrow(running, from_arrow_schema(schema)).toArrow()
            except (PySparkException, Py4JError, ConnectionError) as error:
                # While the JVM still runs: it supplies the error text.
                raise spark_error(error) from error
            yield rows.cast(schema)
            progress("recorded use", begin + len(part), len(tasks))


@contextlib.contextmanager
def opened(settings: SessionSettings) -> Iterator[SparkEngine]:
    """Open a session while the block runs; Ctrl-C also ends its jobs and the JVM.

    Raises:
        ConfigError: Java or the settings of the session are wrong.
        SparkError: No session could be started.
    """
    with session.opened(settings) as spark:
        yield SparkEngine(spark)


def _running(
    at: LakeAddress, encoded_tasks: Sequence[bytes], schema: pa.Schema
) -> Callable[[Batches], Batches]:
    """Return the function of workers that maps numbers of tasks to their results.

    Args:
        encoded_tasks: Every worker gets all tasks, and decodes only its own.
    """

    def run(batches: Batches) -> Batches:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                task: Task = _SERIALIZER.loads(encoded_tasks[number])
                yield from task.run(lake_at(at)).cast(schema).to_batches()

    return run


def spark_error(error: Exception) -> KquotaError:
    """Convert an error of Spark to one sentence: its first line and its last cause; no Java stack."""
    try:
        # Connect errors contain the server's message; classic ones the JVM's message followed by its stack.
        text = (error.getMessage() if isinstance(error, PySparkException) else None) or str(error)
    except (OSError, Py4JError):
        text = ""
    if not text or isinstance(error, ConnectionError) or jvm.is_lost():
        return SparkError(
            "the JVM of Spark ended while it worked",
            hint="it may have had too little memory: try --memory 4g",
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
    return SparkError(f"Spark: {first[:_SHOWN]}", hint="correct the cause and run it again")
