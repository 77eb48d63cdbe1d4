"""Arguments and output lines of ``kafka-client-quotas``: comma lists, and checks of combinations.

KIP-546 does not specify quoting. Entities are written as in kquota: ``--names`` takes, and the output has, the
names of :mod:`reconciler.quota.entity`.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from reconciler.base.escaping import escaped
from reconciler.errors import QuotaValueError, UsageError
from reconciler.quota.entity import ENTITY_TYPES, EntityParts, parts_text, read_parts
from reconciler.render import units


def entity_parts(text: str, *, option: str) -> EntityParts:
    """Parse ``type=name`` items: an entity as every command reads and prints it.

    Raises:
        UsageError: The text is not an entity, or a type is given twice.
    """
    try:
        _ = text.encode("utf-8")
        parts = read_parts(text)
    except UnicodeEncodeError as error:
        raise UsageError(
            f"{option}: {text!r} is not UTF-8 text, which Kafka's names are"
        ) from error
    except QuotaValueError as error:
        raise UsageError(f"{option}: {error.message}") from error
    _refuse_repetition([kind for kind, _ in parts], option)
    return parts


def items(text: str, *, option: str) -> tuple[str, ...]:
    """Parse a comma list of types, keys or ``key=value``.

    Raises:
        UsageError: An item is empty or given twice.
    """
    words = tuple(text.split(","))
    if "" in words:
        raise UsageError(f"{option}: an item of the list is empty")
    _refuse_repetition(words, option)
    return words


def values(text: str) -> dict[str, float]:
    """Parse the ``key=value`` items of ``--add``.

    Raises:
        UsageError: An item has another form, a key is given twice, or a value is not a number.
    """
    pairs = [item.partition("=") for item in items(text, option="--add")]
    for key, equals, right in pairs:
        if not equals or not key:
            raise UsageError(f"--add: {key + equals + right!r} is not of the form key=value")
    _refuse_repetition([key for key, _, _ in pairs], "--add")
    return {key: number(right, key=key) for key, _, right in pairs}


def _refuse_repetition(words: Sequence[str], option: str) -> None:
    repeated = [word for at, word in enumerate(words) if word in words[:at]]
    if repeated:
        raise UsageError(f"{option}: {repeated[0]!r} is given twice")


def number(text: str, *, key: str) -> float:
    """Parse a quota value as the float64 that is sent; the broker checks its range.

    Raises:
        UsageError: It is not a finite decimal number.
    """
    try:
        value = float(text) if text.isascii() and "_" not in text else math.nan
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UsageError(
            f"--add: {key}={text!r} is not a decimal number",
            hint="give byte rates in bytes per second without a suffix, such as 10485760",
        )
    return value


def value_lines(values: Iterable[tuple[str, float]]) -> Iterator[str]:
    """Return ``key=value`` lines, sorted by key."""
    return (f"{escaped(key)}={units.number(value)}" for key, value in sorted(values))


def entity_line(subject: EntityParts) -> str:
    """Return ``{user=user-one, client-id=<default>}``, as the KIP prints it."""
    return f"{{{', '.join(parts_text((part,)) for part in subject)}}}"


PROGRAM: Final = "kafka-client-quotas"


class ClientQuotasArguments(Struct, frozen=True, kw_only=True):
    """One parsed and checked command line."""

    names: EntityParts  # of `--names`
    defaults: tuple[str, ...]
    any_names: tuple[str, ...]  # types of `--any`: with any name, or as the default
    add: Mapping[str, float]
    delete: tuple[str, ...]
    validate_only: bool

    @property
    def entity(self) -> EntityParts:
        """The entity of ``--names`` and ``--defaults``; the broker validates it."""
        return (*self.names, *((kind, None) for kind in self.defaults))


def operation_of(**switches: bool) -> str:
    """Return the only operation that is enabled.

    Raises:
        UsageError: None or several are enabled.
    """
    operations = [name for name, is_on in switches.items() if is_on]
    if len(operations) != 1:
        raise UsageError(
            "give exactly one of --describe, --resolve and --alter",
            hint=f"{PROGRAM} --help shows an example of each",
        )
    return operations[0]


def _only_text(option_values: Sequence[str], option: str) -> str | None:
    """Return the only value of an option, ``None`` if unset; a repeated option is refused."""
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
    """Parse and check the option values of a command line.

    Raises:
        UsageError: A value cannot be parsed, or two of them contradict each other.
    """
    if operation != "alter":
        foreign = [
            name for name, option_values in (("--add", add), ("--delete", delete)) if option_values
        ]
        foreign += ["--validate-only"] if validate_only else []
        if foreign:
            raise UsageError(f"{foreign[0]} needs --alter")
    if operation != "describe" and any_names:
        raise UsageError("--any needs --describe")
    named = _only_text(names, "--names")
    added = _only_text(add, "--add")
    call = ClientQuotasArguments(
        names=() if named is None else entity_parts(named, option="--names"),
        defaults=_items_of(defaults, "--defaults"),
        any_names=_items_of(any_names, "--any"),
        add={} if added is None else values(added),
        delete=_items_of(delete, "--delete"),
        validate_only=validate_only,
    )
    types = [kind for kind, _ in call.names]
    _refuse_overlap(types, call.defaults, "an entity type", "--names and --defaults")
    _refuse_overlap(types, call.any_names, "an entity type", "--names and --any")
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
                hint=f"Kafka's entity types are {', '.join(ENTITY_TYPES)}; the broker validates other types",
            )
    return call


def _items_of(option_values: Sequence[str], option: str) -> tuple[str, ...]:
    text = _only_text(option_values, option)
    return () if text is None else items(text, option=option)


def _refuse_overlap(
    first: Iterable[str], right: Iterable[str], subject: str, options_text: str
) -> None:
    both = sorted(set(first) & set(right))
    if both:
        raise UsageError(f"{subject} is given in both {options_text}: {', '.join(both)}")


def _check_resolve(call: ClientQuotasArguments) -> None:
    if any(name is None for _, name in call.entity):
        raise UsageError(
            "a default cannot be combined with --resolve: a client has a name",
            hint="name the client: --names=user=alice,client-id=checkout",
        )
    unknown = sorted({kind for kind, _ in call.names} - set(ENTITY_TYPES))
    if unknown or not call.names:
        raise UsageError(
            f"--resolve cannot determine what applies to {unknown[0]!r}"
            if unknown
            else "--resolve needs --names",
            hint=f"the types are {', '.join(ENTITY_TYPES)}",
        )
