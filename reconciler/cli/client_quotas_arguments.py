r"""Arguments and output lines of ``kafka-client-quotas``: escaped comma lists, Kafka's encoding, checks of combinations.

KIP-546 does not specify quoting. In ``--names``, ``--defaults``, ``--add`` and ``--delete`` a backslash makes
the next comma or backslash part of the text (``\,`` and ``\\``; nothing else may be escaped), and the first
``=`` of a pair ends its type or key, so a name may contain ``=``. Names are read raw and printed with the
percent-encoding of org.apache.kafka.common.utils.Sanitizer: the default is ``<default>``, and a user with the
name ``<default>`` is ``%3Cdefault%3E``.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from reconciler.errors import UsageError
from reconciler.quota.entity import ENTITY_TYPES, EntityParts
from reconciler.quota.entity_forms import sanitized
from reconciler.render import units


def split(text: str, *, option: str) -> list[str]:
    r"""Return the items of a comma list, with ``\,`` and ``\\`` resolved.

    Raises:
        UsageError: An item is empty, or a backslash precedes another character.
    """
    items, current, characters = list[str](), list[str](), iter(text)
    for character in characters:
        if character == "\\":
            following = next(characters, "")
            if following not in {",", "\\"}:
                raise UsageError(
                    f"{option}: a backslash must precede a comma or a backslash, not before "
                    f"{following or 'the end'!r}",
                    hint="write a backslash of a name twice, and a comma of a name as \\,",
                )
            current.append(following)
        elif character == ",":
            items.append("".join(current))
            current = []
        else:
            current.append(character)
    items.append("".join(current))
    if "" in items:
        raise UsageError(f"{option}: an item of the list is empty")
    return items


def pairs(text: str, *, option: str) -> dict[str, str]:
    """Parse ``type=name`` or ``key=value`` items; the value may be empty and may contain ``=``.

    Raises:
        UsageError: An item has no ``=`` or an empty name, or a name is given twice.
    """
    values_by_name: dict[str, str] = {}
    for item in split(text, option=option):
        name, equals, right = item.partition("=")
        if not equals or not name:
            raise UsageError(f"{option}: {item!r} is not of the form {_FORMS[option]}")
        _once(values_by_name, name, option)
        values_by_name[name] = _text(right, option)
    return values_by_name


def parse_names(text: str, *, option: str) -> tuple[str, ...]:
    """Parse items without a value.

    Raises:
        UsageError: An item is given twice.
    """
    values_by_name: dict[str, str] = {}
    for item in split(text, option=option):
        _once(values_by_name, item, option)
        values_by_name[item] = ""
    return tuple(values_by_name)


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
    return (f"{sanitized(key)}={units.number(value)}" for key, value in sorted(values))


_FORMS: Final = {"--names": "type=name", "--add": "key=value"}


def _once(seen_items: dict[str, str], item: str, option: str) -> None:
    if item in seen_items:
        raise UsageError(f"{option}: {item!r} is given twice")


def _text(name: str, option: str) -> str:
    try:
        _ = name.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UsageError(
            f"{option}: {name!r} is not UTF-8 text, which Kafka's names are"
        ) from error
    return name


PROGRAM: Final = "kafka-client-quotas"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientQuotasArguments:
    """One parsed and checked command line."""

    names: Mapping[str, str]  # type -> name of `--names`
    defaults: tuple[str, ...]
    any_names: tuple[str, ...]  # types of `--any`: with any name, or as the default
    add: Mapping[str, float]
    delete: tuple[str, ...]
    validate_only: bool

    @property
    def entity(self) -> EntityParts:
        """The entity of ``--names`` and ``--defaults``; the broker validates it."""
        return (*self.names.items(), *((kind, None) for kind in self.defaults))


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
    added = _pairs_of(add, "--add")
    call = ClientQuotasArguments(
        names=_pairs_of(names, "--names"),
        defaults=_names_of(defaults, "--defaults"),
        any_names=_names_of(any_names, "--any"),
        add={key: number(value, key=key) for key, value in added.items()},
        delete=_names_of(delete, "--delete"),
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
                hint=f"Kafka's entity types are {', '.join(ENTITY_TYPES)}; the broker validates other types",
            )
    return call


def _pairs_of(option_values: Sequence[str], option: str) -> Mapping[str, str]:
    text = _only_text(option_values, option)
    return {} if text is None else pairs(text, option=option)


def _names_of(option_values: Sequence[str], option: str) -> tuple[str, ...]:
    text = _only_text(option_values, option)
    return () if text is None else parse_names(text, option=option)


def _refuse_overlap(
    first: Iterable[str], right: Iterable[str], subject: str, options_text: str
) -> None:
    both = sorted(set(first) & set(right))
    if both:
        raise UsageError(f"{subject} is given in both {options_text}: {', '.join(both)}")


def _check_resolve(call: ClientQuotasArguments) -> None:
    if call.defaults:
        raise UsageError(
            "--defaults cannot be combined with --resolve: a client has a name",
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
