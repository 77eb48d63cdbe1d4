"""One run of one job: opens lake and session, writes progress, and converts errors of Spark to readable messages."""

import contextlib
import re
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any, Final, TextIO

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # has no types
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from reconciler.base.clock import SystemClock
from reconciler.base.output_text import output_text
from reconciler.base.protocols import Clock, Progress
from reconciler.errors import KquotaError, SparkError
from reconciler.evidence.spark.runtime import jvm, session
from reconciler.evidence.spark.runtime.session import is_connect
from reconciler.evidence.spark.runtime.session_settings import SessionSettings
from reconciler.evidence.store.files.object_store import opened as store_opened
from reconciler.evidence.store.lake import Lake

EVERY_SECONDS: Final = 5.0
"""Interval at which a long phase is reported again."""

_Tasks = Callable[[], tuple[int, int]]


class ProgressWriter:
    """Writes progress (:data:`reconciler.base.protocols.Progress`) as lines; at most one per :data:`EVERY_SECONDS` within a phase."""

    def __init__(self, clock: Clock, to: TextIO | None = None) -> None:
        self._clock = clock
        self._to = to or sys.stderr
        self._began = clock.monotonic()
        self._phase = ""
        self._last = 0.0
        self._lock = threading.Lock()

    def __call__(self, phase: str, completed: int, total: int) -> None:
        """Write a line if the phase is new or complete, or if the last line is old."""
        with self._lock:
            now = self._clock.monotonic()
            if phase == self._phase and completed < total and now - self._last < EVERY_SECONDS:
                return
            self._phase, self._last = phase, now
            self._write(f"{phase}{f': {completed} of {total}' if total else ''}", now)

    def tasks(self, completed: int, total: int) -> None:
        """Write Spark's tasks within the phase, if the last line is old."""
        with self._lock:
            now = self._clock.monotonic()
            if total and now - self._last >= EVERY_SECONDS:
                self._last = now
                self._write(
                    f"{self._phase or 'working'}: {completed} of {total} tasks of Spark", now
                )

    def _write(self, text: str, now: float) -> None:
        self._to.write(output_text(f"[{now - self._began:5.0f} s] {text}\n"))
        self._to.flush()


def tasks_of(spark: SparkSession) -> _Tasks | None:
    """Return a function that counts done and all tasks of running stages; ``None`` for Connect, whose client cannot see them."""
    if is_connect(spark):
        return None
    tracker = spark.sparkContext.statusTracker()

    def count() -> tuple[int, int]:
        stage_infos = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
        stages = [info for info in stage_infos if info is not None]
        return (
            sum(stage.numCompletedTasks for stage in stages),
            sum(stage.numTasks for stage in stages),
        )

    return count


@contextlib.contextmanager
def watched(
    spark: SparkSession, lines: ProgressWriter, every: float = EVERY_SECONDS
) -> Iterator[None]:
    """Report the tasks of long phases while the block runs."""
    count = tasks_of(spark)
    if count is None:
        yield
        return
    over = threading.Event()

    def report_tasks() -> None:
        with contextlib.suppress(
            jvm.LOST, OSError
        ):  # the code that uses the JVM reports that it ended
            while not over.wait(every):
                lines.tasks(*count())

    watcher = threading.Thread(target=report_tasks, name="kquota-progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


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
    lines = ProgressWriter(clock)
    lines("starting Spark", 0, 0)
    with (
        session.opened(session_settings) as spark,
        watched(spark, lines),
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
