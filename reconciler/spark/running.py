"""One run of one job: a lake, a session, progress, and errors of Spark in words for people."""

import dataclasses
import datetime as dt
import enum
import time
import uuid
from typing import Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # has no types
from pyspark.errors import PySparkException

from reconciler.errors import KquotaError, SparkError
from reconciler.lake.lake import Lake
from reconciler.lake.store import opened as store_opened
from reconciler.spark import progress, session
from reconciler.spark.job import Job

_SHOWN: Final = 600


class MachineClock:
    """Implements :class:`reconciler.ports.Clock`: this file starts jobs and so picks the real one."""

    __slots__ = ()

    def now(self) -> float:
        """Seconds since the epoch, UTC."""
        return time.time()  # noqa: TID251 - this is the clock that others take

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Not for jobs: they wait for nothing but Spark."""
        raise AssertionError(seconds)


def run(job: Job[Any], lake: str, where: session.Settings, settings: object) -> Any:  # noqa: ANN401 - the job's result
    """Run a job with a session of its own, which has ended when this returns.

    Args:
        job: Which.
        lake: Its address.
        where: What session.
        settings: Of the type that the job names.

    Raises:
        ConfigError: There is no session to be had.
        LakeError: The lake cannot be read or written.
        SparkError: Spark gave up.
    """
    clock = MachineClock()
    opened = Lake(store_opened(lake), clock=clock, run_id=uuid.uuid4().hex)
    lines = progress.Lines(clock)
    lines("starting Spark", 0, 0)
    try:
        with session.opened(where) as spark, progress.watched(spark, lines):
            lines(job.name, 0, 0)
            result = job.run(spark, opened, settings, lines)
        lines("done", 0, 0)
    except (PySparkException, Py4JError) as error:
        raise told(error, job.name) from error
    return result


def told(error: Exception, what: str) -> KquotaError:
    """Spark's error as one sentence: its first line, without the Java stack that follows."""
    if isinstance(error, PySparkException):
        text = error.getMessage() if error.getCondition() else str(error)
    else:
        text = str(error)
    first = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    return SparkError(
        f"{what}: {first[:_SHOWN]}",
        hint="nothing half-made is visible: units are committed whole; run it again after mending the cause",
    )


def document(result: object) -> Any:  # noqa: ANN401 - JSON
    """A result as plain values for JSON."""
    if dataclasses.is_dataclass(result) and not isinstance(result, type):
        return {one.name: document(getattr(result, one.name)) for one in dataclasses.fields(result)}
    if isinstance(result, enum.Enum):
        return result.value
    if isinstance(result, dt.date):
        return result.isoformat()
    if isinstance(result, dict):
        return {str(key): document(value) for key, value in result.items()}
    if isinstance(result, (list, tuple, set, frozenset)):
        return [document(one) for one in result]
    return result
