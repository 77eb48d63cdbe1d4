"""Options that several commands share, each group packed into one value, so that commands stay short."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from reconciler.cli.values import Duration
from reconciler.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])

FILE: Final = click.Path(dir_okay=False, path_type=Path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Which cluster or clusters a command is about, as it was typed.

    Attributes:
        project: The project file; ``None`` = ``kquota.yaml`` here, if there is one.
        cluster: Name of one cluster; ``None`` = the only one.
        every: All clusters of the project.
        bootstrap_server: Brokers, instead of a project.
        command_config: Java properties of the client, with ``bootstrap_server``.
        config_from: Revision that the project file is read at; ``None`` = the file as it is.
        timeout: Seconds for one call, instead of the configured ones.
        takes_all: Whether the command has the option ``--all``.
    """

    project: Path | None
    cluster: str | None
    every: bool
    bootstrap_server: str | None
    command_config: str | None
    config_from: str | None
    timeout: float | None
    takes_all: bool = False

    def __post_init__(self) -> None:
        if self.every and self.cluster is not None:
            raise UsageError("--all and --cluster contradict each other")
        if self.by_address and (self.every or self.project or self.config_from):
            raise UsageError(
                "--bootstrap-server and --command-config stand alone; --all, --project and "
                "--config-from are about the clusters of a project file"
            )

    @property
    def by_address(self) -> bool:
        """Whether the brokers were named on the command line."""
        return self.bootstrap_server is not None or self.command_config is not None


def packed(
    name: str,
    make: Callable[..., object],
    fields: Sequence[str],
    options: Sequence[Callable[[F], F]],
) -> Callable[[F], F]:
    """A decorator that adds options and hands them to the command as one value.

    Args:
        name: Parameter of the command.
        make: Builds the value from ``fields``.
        fields: Parameter names of the options.
        options: Click's decorators, in the order of the help.
    """

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def wrapper(*args: object, **given: object) -> object:
            taken = {field: given.pop(field) for field in fields}
            return function(*args, **given, **{name: make(**taken)})

        made: Any = wrapper
        for option in reversed(options):
            made = option(made)
        return made  # type: ignore[no-any-return]  # click's decorators keep what they decorate

    return decorate


def where_options(*, many: bool = True, revisions: bool = False) -> Callable[[F], F]:
    """The options that say which cluster.

    Args:
        many: Whether ``--all`` makes sense.
        revisions: Whether ``--config-from`` makes sense.
    """
    options: list[Callable[[Any], Any]] = [
        click.option("--cluster", metavar="NAME", help="A cluster of the project file."),
        click.option("--project", type=FILE, metavar="FILE", help="The project file  [default: kquota.yaml]."),
        click.option("--bootstrap-server", metavar="HOST:PORT,...", help="Brokers, instead of a project file."),
        click.option("--command-config", metavar="FILE", help="Java properties of the client."),
        click.option("--timeout", type=Duration(), metavar="DURATION", help="Longest time of one call to the cluster, with all its attempts; a write that was sent waits 90s for its answer  [default: 60s; 4s while every broker refuses the connection]."),
    ]  # fmt: skip
    if many:
        options.insert(
            1, click.option("--all", "every", is_flag=True, help="Every cluster of the project.")
        )
    if revisions:
        options.insert(
            2,
            click.option(
                "--config-from",
                metavar="REV",
                help="Trust the project file, and every file that it names, as of this revision only: a full commit id or a full ref name such as refs/remotes/origin/main. What the checkout changes in the project file is shown and not used.",
            ),
        )

    def make(**given: Any) -> Where:  # noqa: ANN401 - click's values, checked by the dataclass
        return Where(**({"every": False, "config_from": None, "takes_all": many} | given))

    fields = ["project", "cluster", "bootstrap_server", "command_config", "timeout"]
    fields += ["every"] if many else []
    fields += ["config_from"] if revisions else []
    return packed("where", make, fields, options)


def format_option(*choices: str) -> Callable[[F], F]:
    """``--format``; the first choice is the default."""
    return click.option(
        "--format",
        "output",
        type=click.Choice(choices),
        default=choices[0],
        show_default=True,
        help="How the facts are written.",
    )
