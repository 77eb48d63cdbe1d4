"""Options that several commands share, each group passed as one value; and types of values that click does not have."""

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import click
from click.core import ParameterSource
from msgspec import Struct

from reconciler.app.requests import CONCURRENCY, MetricsRequest, TargetRequest
from reconciler.cli.completion import cluster_names
from reconciler.cli.framework.commands import flag, option
from reconciler.errors import QuotaValueError, UsageError
from reconciler.quota.entity import read_entity
from reconciler.quota.keys import FIELDS, RULES, Key, check_value

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


Parsed = TypeVar("Parsed")

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_DECIMAL: Final = re.compile(r"(0|[1-9][0-9]{0,15})(\.[0-9]{1,30})?")
_STEP: Final = re.compile(r"([0-9]{1,6})(ms|s|m|h|d)")

LONGEST_DAYS: Final = 36_500
"""Longest duration in days: a time that is so far away can still be written in every output."""

LONGEST_REASON: Final = 512
"""Maximum characters of a reason, as the status of a ClientQuota shows them."""


class DurationParameter(click.ParamType[float]):
    """A duration such as ``90s``, ``2h``, ``1h30m`` or ``7d``; converted to seconds, above zero."""

    name = "duration"

    def __init__(self, *, max_days: int = LONGEST_DAYS) -> None:
        self._max_days = max_days

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the duration in seconds."""
        if isinstance(value, float):
            return value
        text = str(value)
        steps = _STEP.findall(text)
        seconds = sum(int(count) * _UNITS[unit] for count, unit in steps)
        if "".join(map("".join, steps)) != text or seconds <= 0:
            self.fail(f"{text!r} is not a duration; examples: 90s, 2h, 1h30m, 7d", param, ctx)
        if seconds > self._max_days * _UNITS["d"]:
            self.fail(f"{text!r} is longer than {self._max_days}d", param, ctx)
        return float(seconds)


DURATION: Final = DurationParameter()
"""A duration of at most :data:`LONGEST_DAYS` days."""


class ReasonParameter(click.ParamType[str]):
    """The reason of an override: a text of at most :data:`LONGEST_REASON` characters, not blank."""

    name = "text"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        """Return the reason without blanks around it."""
        text = str(value).strip()
        if not text:
            self.fail("it is empty; give a reason such as INC-1234", param, ctx)
        if len(text) > LONGEST_REASON:
            self.fail(
                f"it has {len(text)} characters; at most {LONGEST_REASON} are stored", param, ctx
            )
        return text


class _NamesOfKafka(click.ParamType[Parsed]):
    """UTF-8 text: one name, or an entity as in every output (``user=alice,client-id=<default>``)."""

    name = "entity"

    def __init__(self, read: Callable[[str], Parsed]) -> None:
        self._read = read

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Parsed:
        text = str(value)
        try:
            _ = text.encode("utf-8")
            return self._read(text)
        except UnicodeEncodeError:
            self.fail(f"{text!r} is not UTF-8 text, which Kafka requires for names", param, ctx)
        except QuotaValueError as error:
            self.fail(str(error), param, ctx)


ENTITY: Final = _NamesOfKafka(read_entity)
"""An entity with Kafka's entity types."""

NAME: Final = _NamesOfKafka(str)
"""A single name, as it is."""


def key_named(name: str, *, hint: str = "") -> Key:
    """Return the key with this name of Kafka or of the manifest field.

    Raises:
        UsageError: There is none.
    """
    names = {key.value: key for key in Key} | FIELDS
    if name not in names:
        raise UsageError(f"unknown key {name!r}", hint=f"the keys are {', '.join(Key)}{hint}")
    return names[name]


def _decimal(text: str) -> float:
    """Return the value of a key that takes fractions and no suffix: 5Mi would be five million percent.

    Raises:
        QuotaValueError: The text is not a plain decimal number.
    """
    if _DECIMAL.fullmatch(text) is None:
        raise QuotaValueError(f"{text[:64]!r} is not a decimal number without suffix, such as 50.5")
    return float(text)


def limit(text: str) -> tuple[Key, float]:
    """Parse ``key=value``: a key by Kafka's name or the manifest field, and a value as in a manifest.

    Raises:
        UsageError: The text is not of that form, the key is unknown, or Kafka would refuse the value.
    """
    name, equals, right = text.partition("=")
    example = "; for example producer_byte_rate=10Mi"
    if not equals:
        raise UsageError(
            f"{text!r} is not of the form key=value", hint=f"the keys are {', '.join(Key)}{example}"
        )
    key = key_named(name, hint=example)

    from reconciler.manifest.quantity import manifest_whole  # imports the YAML reader

    try:
        exact = manifest_whole(right) if RULES[key].is_integer else _decimal(right)
        return key, check_value(key, exact)
    except QuotaValueError as error:
        raise UsageError(f"{name}: {error.message}", hint=error.hint) from error
