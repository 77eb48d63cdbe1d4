"""Options that several commands share; each group of options is passed to the command as one value."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import click
from click.core import ParameterSource

from reconciler.app.requests import CONCURRENCY, MetricsRequest, TargetRequest
from reconciler.cli.completion import cluster_names
from reconciler.cli.options.value_types import duration_option

F = TypeVar("F", bound=Callable[..., Any])

FILE: Final = click.Path(dir_okay=False, path_type=Path)


_OVERRULED: Final[Mapping[str, Sequence[str]]] = {
    "every": ("cluster", "bootstrap_server"),
    "cluster": ("bootstrap_server",),
    "project": ("bootstrap_server",),
    "config_from": ("bootstrap_server",),
    "bootstrap_server": ("project",),
}
"""Option -> options whose values from environment variables are ignored if the first is typed."""


def _typed_first(values: Mapping[str, Any], context: click.Context | None) -> dict[str, Any]:
    """Return the option values without environment values that typed options overrule, and add ``from_environment``."""
    if context is None:
        return dict(values)
    sources = {name: context.get_parameter_source(name) for name in values}
    typed = [name for name, source in sources.items() if source is ParameterSource.COMMANDLINE]
    overridden = {name for option in typed for name in _OVERRULED.get(option, ())}
    environment = {name for name, at in sources.items() if at is ParameterSource.ENVIRONMENT}
    left_out = environment & overridden
    return {name: None if name in left_out else value for name, value in values.items()} | {
        "from_environment": frozenset(environment - left_out)
    }


@dataclass(frozen=True, slots=True)
class OptionPack:
    """A decorator that adds options and passes them to the command as one value."""

    name: str
    make: Callable[..., object]  # builds the value from the option values, by parameter name
    # Click's decorators and nested packs, in the order of the help.
    options: Sequence["Callable[[Any], Any] | OptionPack"]

    def __call__(self, function: F) -> F:
        """Return the command with these options."""
        names = [name for option in self.options for name in _parameters(option)]

        @functools.wraps(function)
        def wrapper(*args: object, **option_values: object) -> object:
            values = {name: option_values.pop(name) for name in names}
            return function(*args, **option_values, **{self.name: self.make(**values)})

        decorated: Any = wrapper
        for option in reversed(self.options):
            decorated = option(decorated)
        return decorated  # type: ignore[no-any-return]  # click's decorators keep what they decorate


def _parameters(option: Callable[[Any], Any] | OptionPack) -> list[str]:
    """Return the names of the parameters that a decorator adds."""
    if isinstance(option, OptionPack):
        return [option.name]
    probe: Any = option(lambda: None)
    return [parameter.name for parameter in probe.__click_params__]


def where_options(
    *, many: bool = True, revisions: bool = False, contacts: bool = True
) -> OptionPack:
    """Return the options that select clusters.

    Args:
        contacts: Whether clusters are contacted; with ``many``, adds ``--concurrency``.
    """
    options: list[Callable[[Any], Any]] = [
        click.option(
            "--cluster",
            metavar="NAME",
            envvar="KQUOTA_CLUSTER",
            shell_complete=cluster_names,
            help="Name of a cluster in the project file  [env: KQUOTA_CLUSTER; default: the only one].",
        ),
        click.option(
            "--project",
            type=FILE,
            metavar="FILE",
            envvar="KQUOTA_PROJECT",
            help="Project file  [env: KQUOTA_PROJECT; default: kquota.yaml here or in a folder above, within the git work tree].",
        ),
        click.option(
            "--bootstrap-server",
            metavar="HOST:PORT,...",
            envvar="KQUOTA_BOOTSTRAP_SERVERS",
            help="Brokers to connect to; no project file is read  [env: KQUOTA_BOOTSTRAP_SERVERS].",
        ),
        click.option(
            "--command-config",
            metavar="FILE",
            type=click.Path(),
            help="Java properties file of the client; added to the settings of the project file, and takes precedence over them.",
        ),
        duration_option(
            "--timeout",
            text="Longest time of one call to the cluster, with all its attempts; a write that was sent waits 90s for its answer  [default: 60s; 4s while every broker refuses the connection].",
        ),
    ]
    if many:
        options.insert(
            1,
            click.option("--all", "every", is_flag=True, help="All clusters of the project file."),
        )
    if many and contacts:
        options.append(
            click.option(
                "--concurrency",
                type=click.IntRange(1, 10_000),
                default=CONCURRENCY,
                show_default=True,
                metavar="N",
                help="With --all: number of clusters processed at the same time; the order of the output does not change.",
            )
        )
    if revisions:
        options.insert(
            2,
            click.option(
                "--config-from",
                metavar="REV",
                help="Read the project file, and every file that it names, at this revision: a full commit id or a full ref name such as refs/remotes/origin/main. Changes of the checkout to the project file are shown and not used.",
            ),
        )

    def make(**option_values: Any) -> TargetRequest:  # noqa: ANN401 - click's values, checked by the dataclass
        values = _typed_first(option_values, click.get_current_context(silent=True))
        return TargetRequest(**({"every": False, "config_from": None, "takes_all": many} | values))

    return OptionPack("where", make, options)


def out_option() -> Callable[[F], F]:
    """Return ``--out`` of a command that writes to standard output without it, passed as ``out_path``."""
    return click.option(
        "--out",
        "out_path",
        type=FILE,
        metavar="FILE",
        help="Output file, overwritten if it exists  [default: stdout].",
    )


def format_option(*choices: str) -> Callable[[F], F]:
    """Return ``--format``; the first choice is the default."""
    return click.option(
        "--format",
        "output",
        type=click.Choice(choices),
        default=choices[0],
        show_default=True,
        help="Output format.",
    )


serving_options: Final = OptionPack(
    "serving",
    MetricsRequest,
    (
        click.option(
            "--metrics-address",
            "address",
            metavar="HOST:PORT",
            help="Address of /metrics, /healthz and /readyz; :PORT listens on every address.",
        ),
        click.option(
            "--metrics-entity-labels",
            "entity_labels",
            is_flag=True,
            help="Include names and limits of drifted entities in metrics, which any scraper can read.",
        ),
    ),
)
"""The options of :class:`MetricsRequest`, passed as ``serving``."""
