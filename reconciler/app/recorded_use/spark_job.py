"""One job on Spark: where it runs, and a session of its own."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from reconciler.base.installation import needs

if TYPE_CHECKING:
    from reconciler.evidence.spark.runtime.session import SessionSettings

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkOptions:
    """Where a job runs, as it was typed."""

    master: str | None = None
    remote: str | None = None
    memory: str | None = None
    brief: bool = False

    def settings(self) -> "SessionSettings":
        """The session.

        Raises:
            ConfigError: They contradict each other, or one is not what it should be.
        """
        from reconciler.evidence.spark.runtime.session import SessionSettings

        return SessionSettings(
            master=self.master, remote=self.remote, memory=self.memory, brief=self.brief
        )


def run(
    name: str,
    lake: str,
    running: SparkOptions,
    **settings: Any,  # noqa: ANN401 - fields of the job's settings
) -> Any:  # noqa: ANN401 - the job's result
    """Run a job and give its result.

    Args:
        name: Of the job and of its command.
        lake: Its address.
        running: Where it runs.
        settings: The fields of its settings.

    Raises:
        UsageError: The extra is not installed.
        KquotaError: As :func:`reconciler.evidence.spark.runtime.job_runner.run`.
    """
    needs("spark", f"kquota spark {name}")
    from reconciler.evidence.spark.jobs import load_job
    from reconciler.evidence.spark.runtime import job_runner as runs

    job = load_job(name)
    return runs.run(job, lake, running.settings(), job.settings(**settings))
