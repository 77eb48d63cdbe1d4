"""The writers of a cluster's inventory and their scopes: two overlapping ones would overwrite each other's limits."""

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from reconciler.errors import PlanRefused
from reconciler.quota.patterns import EntityForm, EntityPattern, NamePattern

FORGOTTEN_AFTER_SECONDS: Final = 30 * 86_400.0
"""A writer not seen for a month counts as removed; its entry stays until the next write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryWriter:
    """A writer of an inventory."""

    id: str  # the same for every run of one configuration, such as `github.com/acme/quotas:prod`
    description: str  # its command, for the error of a second process, such as `kquota apply`
    scope: tuple[EntityPattern, ...] = ()  # the entities that it manages; empty = all
    # Whether it writes what documents declare. One that writes only what its user named, such as an override, works
    # beside any other, and is not stored.
    manages: bool = True
    forgets: frozenset[str] = frozenset()  # ids of writers that no longer exist
    # The command that applies its documents, to which `--forget-writer` is added, and the file that its project has to name
    # as `inventory.file`; "" = it does. They are not stored.
    apply_command: str = field(default="kquota apply", compare=False)
    unnamed_file: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedWriter:
    """A writer as stored in an inventory."""

    writer: InventoryWriter
    last_seen: float  # when it last wrote, in seconds since the epoch


def check_alone(
    writer: InventoryWriter, recorded_writers: Mapping[str, RecordedWriter], *, now: float
) -> None:
    """Check that no other known writer manages an entity of this writer.

    Raises:
        PlanRefused: Two scopes overlap; the message has both.
    """
    overlapping_writers = [
        recorded_writer
        for name, recorded_writer in sorted(recorded_writers.items())
        if writer.manages
        and name != writer.id
        and name not in writer.forgets
        and now - recorded_writer.last_seen < FORGOTTEN_AFTER_SECONDS
        and scopes_overlap(writer.scope, recorded_writer.writer.scope)
    ]
    if overlapping_writers:
        first = overlapping_writers[0].writer
        forgetting = " ".join(
            f"--forget-writer {shlex.quote(recorded_writer.writer.id)}"
            for recorded_writer in overlapping_writers
        )
        condition = (
            f" with inventory.file: {writer.unnamed_file} in the project file, because a relative path names another file there"
            if writer.unnamed_file
            else ""
        )
        raise PlanRefused(
            f"another writer manages the same entities: {first.id!r} ({first.description})",
            violations=tuple(
                f"the scope of {writer.id!r} overlaps that of {recorded_writer.writer.id!r}"
                for recorded_writer in overlapping_writers
            ),
            hint="use scopes that do not overlap; if the other writer no longer exists, for example because its cluster"
            f" has another name now: {writer.apply_command} {forgetting}{condition}",
        )


def with_writer(
    writer: InventoryWriter, recorded_writers: Mapping[str, RecordedWriter], *, now: float
) -> Mapping[str, RecordedWriter]:
    """Return the writers of an inventory after a write."""
    if not writer.manages:
        return recorded_writers
    return {
        name: recorded_writer
        for name, recorded_writer in recorded_writers.items()
        if name not in writer.forgets
    } | {writer.id: RecordedWriter(writer=replace(writer, forgets=frozenset()), last_seen=now)}


def scopes_overlap(first: tuple[EntityPattern, ...], second: tuple[EntityPattern, ...]) -> bool:
    """Whether some entity is in both; an empty scope contains all."""
    return not first or not second or any(_meet(a, b) for a in first for b in second)


def _meet(first: EntityPattern, second: EntityPattern) -> bool:
    return any(
        _names_meet(first, second, shape) for shape in first.covered_forms & second.covered_forms
    )


def _names_meet(first: EntityPattern, second: EntityPattern, shape: EntityForm) -> bool:
    return all(
        first_name is None
        or second_name is None
        or not _is_named(shape, slot)
        or _names_overlap(first_name, second_name, is_address=slot == "ip")
        for slot, first_name, second_name in (
            ("user", first.user, second.user),
            ("clientId", first.client_id, second.client_id),
            ("ip", first.ip, second.ip),
        )
    )


def _is_named(shape: EntityForm, slot: str) -> bool:
    return slot in shape.value.split("+")


def _names_overlap(first: NamePattern, second: NamePattern, *, is_address: bool) -> bool:
    for pattern, name in ((second, first.exact), (first, second.exact)):
        if name is not None:
            return pattern.matches_address(name) if is_address else pattern.matches(name)
    first_prefix, second_prefix = first.prefix or "", second.prefix or ""
    return first_prefix.startswith(second_prefix) or second_prefix.startswith(first_prefix)


def writer_to_json(recorded_writer: RecordedWriter) -> list[object]:
    """Return ``[id, description, last_seen, [pattern…]]``."""
    return [
        recorded_writer.writer.id,
        recorded_writer.writer.description,
        recorded_writer.last_seen,
        [_pattern_to_json(pattern) for pattern in recorded_writer.writer.scope],
    ]


def writer_from_json(value: object) -> RecordedWriter:
    """Parse the result of :func:`writer_to_json`.

    Raises:
        ValueError: The value has another structure.
    """
    match value:
        case [str(name), str(description), float() | int() as last_seen, list(scope)]:
            patterns = tuple(_pattern_from_json(pattern) for pattern in scope)
            return RecordedWriter(
                writer=InventoryWriter(id=name, description=description, scope=patterns),
                last_seen=float(last_seen),
            )
        case _:
            raise ValueError("a writer is written as id, what, seen and scope")


def _pattern_to_json(pattern: EntityPattern) -> list[object]:
    return [
        sorted(pattern.forms),
        *(
            None
            if name is None
            else ["=", name.exact]
            if name.prefix is None
            else ["^", name.prefix]
            for name in (pattern.user, pattern.client_id, pattern.ip)
        ),
    ]


def _pattern_from_json(value: object) -> EntityPattern:
    match value:
        case [list(forms), user, client_id, ip]:
            return EntityPattern(
                forms=_forms(forms), user=_name(user), client_id=_name(client_id), ip=_name(ip)
            )
        case _:
            raise ValueError("a pattern is written as forms, user, clientId and ip")


def _forms(values: Iterable[object]) -> frozenset[EntityForm]:
    return frozenset(EntityForm(str(value)) for value in values)


def _name(value: object) -> NamePattern | None:
    match value:
        case None:
            return None
        case ["=", str(exact)]:
            return NamePattern(exact=exact)
        case ["^", str(prefix)]:
            return NamePattern(prefix=prefix)
        case _:
            raise ValueError("a name pattern is written as = or ^ and a text")
