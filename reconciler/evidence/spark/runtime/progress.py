"""Progress of a long job: a line on stderr for each phase, and the tasks of Spark except with Connect."""

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Final, TextIO

from pyspark.sql import SparkSession

from reconciler.base.output_text import output_text
from reconciler.base.protocols import Clock
from reconciler.evidence.spark.runtime import jvm
from reconciler.evidence.spark.runtime.masters import is_connect

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
