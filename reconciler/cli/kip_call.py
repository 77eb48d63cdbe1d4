r"""One command line of ``kafka-client-quotas``: its texts, read and held against each other before any broker is asked."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from reconciler.cli import kip_arguments as kip
from reconciler.errors import QuotaValueError, UsageError
from reconciler.quota.entity import ENTITY_TYPES, Entity, from_parts

PROGRAM: Final = "kafka-client-quotas"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One command line, read and checked.

    Attributes:
        names: Type -> name of ``--names``.
        defaults: Types of ``--defaults``.
        add: Key -> value.
        delete: Keys.
        validate_only: Ask the broker, change nothing.
    """

    names: Mapping[str, str]
    defaults: tuple[str, ...]
    add: Mapping[str, float]
    delete: tuple[str, ...]
    validate_only: bool

    def entity(self) -> Entity:
        """What ``--names`` and ``--defaults`` spell out together.

        Raises:
            UsageError: They spell no entity that Kafka knows.
        """
        named: list[tuple[str, str | None]] = list(self.names.items())
        named += [(kind, None) for kind in self.defaults]
        try:
            return from_parts(named)
        except QuotaValueError as error:
            raise UsageError(
                f"--names and --defaults: {error.message}",
                hint=f"the types are {', '.join(ENTITY_TYPES)}",
            ) from error


def operation_of(**switches: bool) -> str:
    """The one operation that is switched on.

    Raises:
        UsageError: None is, or several are.
    """
    chosen = [name for name, given in switches.items() if given]
    if len(chosen) != 1:
        raise UsageError(
            "give exactly one of --describe, --resolve and --alter",
            hint=f"{PROGRAM} --help shows an example of each",
        )
    return chosen[0]


def _once(given: Sequence[str], option: str) -> str | None:
    """The one text of an option; a second one would silently hide the first."""
    if len(given) > 1:
        raise UsageError(f"{option} stands twice", hint="put everything into one comma list")
    return given[0] if given else None


def read_call(
    operation: str,
    *,
    names: Sequence[str],
    defaults: Sequence[str],
    add: Sequence[str],
    delete: Sequence[str],
    validate_only: bool,
) -> Call:
    """The texts of a command line as a checked call.

    Raises:
        UsageError: A text cannot be read, or two of them contradict each other.
    """
    if operation != "alter":
        foreign = [name for name, given in (("--add", add), ("--delete", delete)) if given]
        foreign += ["--validate-only"] if validate_only else []
        if foreign:
            raise UsageError(f"{foreign[0]} belongs to --alter, not to --{operation}")
    added = _pairs(add, "--add")
    made = Call(
        names=_pairs(names, "--names"),
        defaults=_words(defaults, "--defaults"),
        add={key: kip.number(value, key=key) for key, value in added.items()},
        delete=_words(delete, "--delete"),
        validate_only=validate_only,
    )
    _refuse_overlap(made.names, made.defaults, "an entity type", "--names and --defaults")
    _refuse_overlap(made.add, made.delete, "a key", "--add and --delete")
    if operation == "resolve":
        _check_resolve(made)
    if operation == "alter":
        if not made.add and not made.delete:
            raise UsageError("--alter needs --add or --delete")
        _ = made.entity()
    return made


def _pairs(given: Sequence[str], option: str) -> Mapping[str, str]:
    text = _once(given, option)
    return {} if text is None else kip.pairs(text, option=option)


def _words(given: Sequence[str], option: str) -> tuple[str, ...]:
    text = _once(given, option)
    return () if text is None else kip.words(text, option=option)


def _refuse_overlap(left: Iterable[str], right: Iterable[str], what: str, where: str) -> None:
    both = sorted(set(left) & set(right))
    if both:
        raise UsageError(f"{what} stands in both {where}: {', '.join(both)}")


def _check_resolve(call: Call) -> None:
    if call.defaults:
        raise UsageError(
            "--defaults has no meaning with --resolve: a client always has a name",
            hint="name the client: --names=user=alice,client-id=checkout",
        )
    unknown = sorted(set(call.names) - set(ENTITY_TYPES))
    if unknown or not call.names:
        raise UsageError(
            f"--resolve cannot tell what applies to {unknown[0]!r}"
            if unknown
            else "--resolve needs --names",
            hint=f"the types are {', '.join(ENTITY_TYPES)}",
        )
