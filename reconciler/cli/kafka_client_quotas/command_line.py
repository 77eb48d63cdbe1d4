r"""One command line of ``kafka-client-quotas``: its texts, read and held against each other before any broker is asked."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from reconciler.cli.kafka_client_quotas import arguments as kip
from reconciler.errors import UsageError
from reconciler.quota.entity import ENTITY_TYPES, EntityParts

PROGRAM: Final = "kafka-client-quotas"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientQuotasArguments:
    """One command line, read and checked.

    Attributes:
        names: Type -> name of ``--names``.
        defaults: Types of ``--defaults``.
        any_names: Types of ``--any``: with any name, or as the default.
        add: Key -> value.
        delete: Keys.
        validate_only: Ask the broker, change nothing.
    """

    names: Mapping[str, str]
    defaults: tuple[str, ...]
    any_names: tuple[str, ...]
    add: Mapping[str, float]
    delete: tuple[str, ...]
    validate_only: bool

    @property
    def entity(self) -> EntityParts:
        """What ``--names`` and ``--defaults`` spell out together; the broker judges it."""
        return (*self.names.items(), *((kind, None) for kind in self.defaults))


def operation_of(**switches: bool) -> str:
    """The one operation that is switched on.

    Raises:
        UsageError: None is, or several are.
    """
    operations = [name for name, is_on in switches.items() if is_on]
    if len(operations) != 1:
        raise UsageError(
            "give exactly one of --describe, --resolve and --alter",
            hint=f"{PROGRAM} --help shows an example of each",
        )
    return operations[0]


def _once(option_values: Sequence[str], option: str) -> str | None:
    """The one text of an option; a second one would silently hide the first."""
    if len(option_values) > 1:
        raise UsageError(f"{option} is given twice", hint="put everything into one comma list")
    return option_values[0] if option_values else None


def read_call(
    operation: str,
    *,
    names: Sequence[str],
    defaults: Sequence[str],
    any_names: Sequence[str],
    add: Sequence[str],
    delete: Sequence[str],
    validate_only: bool,
) -> ClientQuotasArguments:
    """The texts of a command line as a checked call.

    Raises:
        UsageError: A text cannot be read, or two of them contradict each other.
    """
    if operation != "alter":
        foreign = [
            name for name, option_values in (("--add", add), ("--delete", delete)) if option_values
        ]
        foreign += ["--validate-only"] if validate_only else []
        if foreign:
            raise UsageError(f"{foreign[0]} belongs to --alter, not to --{operation}")
    if operation != "describe" and any_names:
        raise UsageError(f"--any belongs to --describe, not to --{operation}")
    added = _pairs(add, "--add")
    call = ClientQuotasArguments(
        names=_pairs(names, "--names"),
        defaults=_parse_names(defaults, "--defaults"),
        any_names=_parse_names(any_names, "--any"),
        add={key: kip.number(value, key=key) for key, value in added.items()},
        delete=_parse_names(delete, "--delete"),
        validate_only=validate_only,
    )
    _refuse_overlap(call.names, call.defaults, "an entity type", "--names and --defaults")
    _refuse_overlap(call.names, call.any_names, "an entity type", "--names and --any")
    _refuse_overlap(call.defaults, call.any_names, "an entity type", "--defaults and --any")
    _refuse_overlap(call.add, call.delete, "a key", "--add and --delete")
    if operation == "resolve":
        _check_resolve(call)
    if operation == "alter":
        if not call.add and not call.delete:
            raise UsageError("--alter needs --add or --delete")
        if not call.entity:
            raise UsageError(
                "--alter needs --names or --defaults",
                hint=f"the types of Kafka are {', '.join(ENTITY_TYPES)}; the broker judges others",
            )
    return call


def _pairs(option_values: Sequence[str], option: str) -> Mapping[str, str]:
    text = _once(option_values, option)
    return {} if text is None else kip.pairs(text, option=option)


def _parse_names(option_values: Sequence[str], option: str) -> tuple[str, ...]:
    text = _once(option_values, option)
    return () if text is None else kip.parse_names(text, option=option)


def _refuse_overlap(
    first: Iterable[str], right: Iterable[str], subject: str, options_text: str
) -> None:
    both = sorted(set(first) & set(right))
    if both:
        raise UsageError(f"{subject} stands in both {options_text}: {', '.join(both)}")


def _check_resolve(call: ClientQuotasArguments) -> None:
    if call.defaults:
        raise UsageError(
            "--defaults has no meaning with --resolve: a client always has a name",
            hint="name the client: --names=user=alice,client-id=checkout",
        )
    unknown = sorted(set(call.names) - set(ENTITY_TYPES))
    if unknown or not call.names:
        raise UsageError(
            f"--resolve cannot determine what applies to {unknown[0]!r}"
            if unknown
            else "--resolve needs --names",
            hint=f"the types are {', '.join(ENTITY_TYPES)}",
        )
