"""What the commands of ``kquota spark`` share to run a job: where it runs, and a session of its own."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from reconciler.base.extras import needs
from reconciler.cli.options.shared import packed

if TYPE_CHECKING:
    from reconciler.evidence.spark.runtime.session import SessionSettings

F = TypeVar("F", bound=Callable[..., Any])

ENGINES: Final = ("auto", "core", "spark")


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


def running_options() -> Callable[[F], F]:
    """``--master``, ``--remote``, ``--memory`` and ``--brief``, handed on as ``running``."""
    return packed(
        "running",
        SparkOptions,
        ["master", "remote", "memory", "brief"],
        [
            click.option("--master", metavar="MASTER", help="Spark master: local[2], spark://host:7077, k8s://…, yarn  [default: this machine]."),
            click.option("--remote", metavar="sc://HOST:PORT", help="Spark Connect server to use instead of --master."),
            click.option("--memory", metavar="SIZE", help="Heap of a session on this machine, such as 4g  [default: 1g]."),
            click.option("--brief", is_flag=True, help="Start faster and compute slower; for little data on this machine."),
        ],
    )  # fmt: skip


def engine_option() -> Callable[[F], F]:
    """``--engine``: the core in this process, Spark, or whichever is quicker for so many rows."""
    return click.option(
        "--engine",
        type=click.Choice(ENGINES),
        default="auto",
        show_default=True,
        help="Engine: core (this process), spark, or auto (the faster one).",
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
