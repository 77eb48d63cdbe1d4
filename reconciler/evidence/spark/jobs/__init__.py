"""The table of jobs: name -> module and summary. A job's module has a :class:`~reconciler.evidence.spark.runtime.job.Job` called ``JOB``."""

import importlib
from typing import Any, Final

from reconciler.errors import UsageError
from reconciler.evidence.spark.runtime.job import Job

SUMMARIES: Final[dict[str, str]] = {
    "rollup": "Five-minute sums and daily histograms of what changed.",
    "usage": "Use against limits: percentiles, throttled, near their limit, unused.",
    "capacity": "Broker budgets: committed and served traffic, and use above fair shares.",
    "simulate": "Effect of new limits on recorded use.",
    "recommend": "A limit for every bucket, with its evidence; nothing is applied.",
    "report": "One page: use, capacity, and the newest what-if and recommendations.",
    "resolve": "Which limit each client gets, and which limits apply to no client.",
    "plan": "Planned changes of all clusters, as kquota plan shows for one.",
    "history": "Changes of limits, their time and their cause.",
}
"""In the order of use; job ``name`` is in the module ``reconciler.evidence.spark.jobs.name``."""


def load_job(name: str) -> Job[Any]:
    """Import the module of a job and return the job.

    Raises:
        UsageError: There is no job of this name.
    """
    if name not in SUMMARIES:
        raise UsageError(f"unknown job {name!r}", hint=f"jobs are {', '.join(SUMMARIES)}")
    job = importlib.import_module(f"reconciler.evidence.spark.jobs.{name}").JOB
    assert isinstance(job, Job), name  # noqa: S101 - the table is ours
    return job
