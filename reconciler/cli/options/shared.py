"""Options that several commands share; each group of options is passed to the command as one value."""

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import click
from click.core import ParameterSource
from msgspec import Struct

from reconciler.app.requests import CONCURRENCY, MetricsRequest, TargetRequest
from reconciler.cli.completion import cluster_names
from reconciler.cli.framework.commands import flag, option
from reconciler.cli.options.value_types import DURATION

F = TypeVar("F", bound=Callable[..., Any])

FILE: Final = click.Path(dir_okay=False, path_type=Path)
FOLDER: Final = click.Path(file_okay=False, path_type=Path)


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
    overridden = {name for typed_name in typed for name in _OVERRULED.get(typed_name, ())}
    environment = {name for name, at in sources.items() if at is ParameterSource.ENVIRONMENT}
    if "cluster" in typed and not _has_project(values):
        overridden.discard("bootstrap_server")  # The name is then that of the brokers in documents.
    left_out = environment & overridden
    return {name: None if name in left_out else value for name, value in values.items()} | {
        "from_environment": frozenset(environment - left_out)
    }


def _has_project(values: Mapping[str, Any]) -> bool:
    from reconciler.app.clusters.project_files import project_path

    is_given = any(values.get(name) for name in ("project", "every", "config_from"))
    return is_given or project_path(TargetRequest()).exists()


class OptionPack(Struct, frozen=True):
    """A decorator that adds options and passes them to the command as one value."""

    name: str
    make: Callable[..., object]  # builds the value from the option values, by parameter name
    # Click's decorators and nested packs, in the order of the help.
    options: Sequence["Callable[[Any], Any] | OptionPack"]

    def __call__(self, function: F) -> F:
        """Return the command with these options."""
        names = [name for decorator in self.options for name in _parameters(decorator)]

        @functools.wraps(function)
        def wrapper(*args: object, **option_values: object) -> object:
            values = {name: option_values.pop(name) for name in names}
            return function(*args, **option_values, **{self.name: self.make(**values)})

        decorated: Any = wrapper
        for decorator in reversed(self.options):
            decorated = decorator(decorated)
        return decorated  # type: ignore[no-any-return]  # click's decorators keep what they decorate


def _parameters(decorator: Callable[[Any], Any] | OptionPack) -> list[str]:
    """Return the names of the parameters that a decorator adds."""
    if isinstance(decorator, OptionPack):
        return [decorator.name]
    probe: Any = decorator(lambda: None)
    return [parameter.name for parameter in probe.__click_params__]


def where_options(
    *, many: bool = True, revisions: bool = False, contacts: bool = True
) -> OptionPack:
    """Return the options that select clusters.

    Args:
        contacts: Whether clusters are contacted; with ``many``, adds ``--concurrency``.
    """
    options: list[Callable[[Any], Any]] = [
        option(
            "--cluster NAME",
            "Name of a cluster in the project file  [env: KQUOTA_CLUSTER; default: the only one].",
            envvar="KQUOTA_CLUSTER",
            shell_complete=cluster_names,
        ),
        option(
            "--project FILE",
            "Project file  [env: KQUOTA_PROJECT; default: kquota.yaml here or in a folder above, within the git work tree].",
            FILE,
            envvar="KQUOTA_PROJECT",
        ),
        option(
            "--bootstrap-server HOST:PORT,...",
            "Brokers to connect to; no project file is read  [env: KQUOTA_BOOTSTRAP_SERVERS].",
            envvar="KQUOTA_BOOTSTRAP_SERVERS",
        ),
        option(
            "--command-config FILE",
            "Java properties file of the client; added to the settings of the project file, and takes precedence over them.",
            click.Path(),
        ),
        option(
            "--timeout DURATION",
            "Longest time of one call to the cluster, with all its attempts; a write that was sent waits 90s for its answer  [default: 60s; 4s while every broker refuses the connection].",
            DURATION,
        ),
    ]
    if many:
        options.insert(1, flag("--all", "All clusters of the project file.", name="every"))
    if many and contacts:
        options.append(
            option(
                "--concurrency N",
                "With --all: number of clusters processed at the same time; the order of the output does not change.",
                click.IntRange(1, 10_000),
                default=CONCURRENCY,
            )
        )
    if revisions:
        options.insert(
            2,
            option(
                "--config-from REV",
                "Read the project file, and every file that it names, at this revision: a full commit id or a full ref name such as refs/remotes/origin/main. Changes of the checkout to the project file are shown and not used.",
            ),
        )

    def make(**option_values: Any) -> TargetRequest:  # noqa: ANN401 - click's values, checked by the dataclass
        values = _typed_first(option_values, click.get_current_context(silent=True))
        return TargetRequest(**({"every": False, "config_from": None, "takes_all": many} | values))

    return OptionPack("where", make, options)


def out_option() -> Callable[[F], F]:
    """Return ``--out`` of a command that writes to standard output without it, passed as ``out_path``."""
    return option(
        "--out FILE",
        "Output file, overwritten if it exists  [default: stdout].",
        FILE,
        name="out_path",
    )


def format_option(*choices: str) -> Callable[[F], F]:
    """Return ``--format``; the first choice is the default."""
    return option(
        "--format", "Output format.", click.Choice(choices), name="output", default=choices[0]
    )


serving_options: Final = OptionPack(
    "serving",
    MetricsRequest,
    (
        option(
            "--metrics-address HOST:PORT",
            "Address of /metrics, /healthz and /readyz; :PORT listens on every address.",
            name="address",
        ),
        flag(
            "--metrics-entity-labels",
            "Include names and limits of drifted entities in metrics, which any scraper can read.",
            name="entity_labels",
        ),
    ),
)
"""The options of :class:`MetricsRequest`, passed as ``serving``."""
