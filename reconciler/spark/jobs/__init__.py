"""The table of jobs: name -> module and summary. A job's module has a :class:`~reconciler.spark.job.Job` called ``JOB``."""

import importlib
from typing import Any, Final

from reconciler.errors import UsageError
from reconciler.spark.job import Job

SUMMARIES: Final[dict[str, str]] = {
    "rollup": "Five-minute sums and daily histograms of what changed.",
    "usage": "Use against limits: percentiles, throttled, near their limit, unused.",
    "capacity": "Budgets of brokers, what is promised and served at one time, excess over fair shares.",
}
"""In the order of the work; ``name`` lives in ``reconciler.spark.jobs.name``."""


def named(name: str) -> Job[Any]:
    """A job, its module imported now.

    Raises:
        UsageError: There is none of this name.
    """
    if name not in SUMMARIES:
        raise UsageError(f"there is no job {name!r}", hint=f"there are {', '.join(SUMMARIES)}")
    found = importlib.import_module(f"reconciler.spark.jobs.{name}").JOB
    assert isinstance(found, Job), name  # noqa: S101 - the table is ours
    return found
