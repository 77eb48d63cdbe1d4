"""Runs one Spark job in its own session."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from reconciler.base.installation import needs
from reconciler.evidence.spark.runtime.session_settings import SessionSettings

if TYPE_CHECKING:
    from reconciler.evidence.spark.runtime.job_runner import JobFunction


def run(
    name: str,
    lake: str,
    running: SessionSettings,
    **settings: Any,  # noqa: ANN401 - fields of the job's settings
) -> Any:  # noqa: ANN401 - the job's result
    """Run a job by its name, with the fields of its settings, and return its result.

    Raises:
        UsageError: The extra is not installed.
        KquotaError: As :func:`reconciler.evidence.spark.runtime.job_runner.run`.
    """
    needs("spark", f"kquota spark {name}")
    from reconciler.evidence.spark.jobs import capacity, report, rollup, usage
    from reconciler.evidence.spark.tables.time_window import ReportWindow

    jobs: dict[str, tuple[JobFunction, Callable[..., object]]] = {
        "capacity": (capacity.run, ReportWindow),
        "report": (report.run, ReportWindow),
        "rollup": (rollup.run, rollup.RollupSettings),
        "usage": (usage.run, ReportWindow),
    }
    work, settings_of = jobs[name]
    return run_work(name, work, lake, running, settings_of(**settings))


def run_work(
    name: str,
    work: "JobFunction",
    lake: str,
    running: SessionSettings,
    settings: object = None,
) -> Any:  # noqa: ANN401 - what the work gives
    """Run a function as a job of this name; errors as for :func:`run`."""
    needs("spark", f"kquota spark {name}")
    from reconciler.evidence.spark.runtime import job_runner

    return job_runner.run(name, work, lake, running, settings)
