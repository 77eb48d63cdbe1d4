"""What the commands of ``kquota spark`` share to run a job: where it runs, and a session of its own."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from reconciler.cli.extras import needs
from reconciler.cli.options import packed

if TYPE_CHECKING:
    from reconciler.spark.job import Job
    from reconciler.spark.session import Settings

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a job runs, as it was typed."""

    master: str | None = None
    remote: str | None = None
    memory: str | None = None

    @property
    def typed(self) -> bool:
        """Whether anything was."""
        return bool(self.master or self.remote or self.memory)

    def settings(self) -> "Settings":
        """The session.

        Raises:
            ConfigError: They contradict each other, or one is not what it should be.
        """
        from reconciler.spark.session import Settings

        return Settings(master=self.master, remote=self.remote, memory=self.memory)


def place_options() -> Callable[[F], F]:
    """``--master``, ``--remote`` and ``--memory``, handed on as ``place``."""
    return packed(
        "place",
        Place,
        ["master", "remote", "memory"],
        [
            click.option("--master", metavar="MASTER", help="Spark master: local[2], spark://host:7077, k8s://…, yarn  [default: this machine]."),
            click.option("--remote", metavar="sc://HOST:PORT", help="A Spark Connect server instead."),
            click.option("--memory", metavar="SIZE", help="Heap of a session on this machine, such as 4g  [default: 1g]."),
        ],
    )  # fmt: skip


def run_job(
    name: str, *, lake: str, place: Place, settings: Callable[["Job[Any]"], object]
) -> Any:  # noqa: ANN401 - the job's result
    """Run a job and give its result.

    Args:
        name: Of the job, as in the table of jobs; also what the command is called.
        lake: Its address.
        place: Where it runs.
        settings: Makes the job's settings; called once PySpark is known to be there.

    Raises:
        UsageError: The extra is not installed.
        KquotaError: As :func:`reconciler.spark.running.run`.
    """
    needs("spark", f"kquota spark {name}")
    from reconciler.spark.jobs import named
    from reconciler.spark.running import run

    job = named(name)
    return run(job, lake, place.settings(), settings(job))
