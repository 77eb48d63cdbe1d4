"""Who writes to a cluster through an inventory, and what each looks after: two that overlap would fight for ever."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from reconciler.errors import Refused
from reconciler.quota.patterns import EntityPattern, Form, NamePattern

FORGOTTEN_AFTER_SECONDS: Final = 30 * 86_400.0
"""A writer that was not seen for a month is taken for gone; its entry stays until somebody writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """One who may write.

    Attributes:
        id: The same for every run of one configuration, such as ``github.com/acme/quotas:prod``.
        what: What it does, for the error of whoever comes second, such as ``kquota apply``.
        scope: What it looks after; empty = everything.
    """

    id: str
    what: str
    scope: tuple[EntityPattern, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownWriter:
    """A writer as an inventory remembers it.

    Attributes:
        writer: Who.
        seen: When it wrote last, in seconds since the epoch.
    """

    writer: Writer
    seen: float


def check_alone(writer: Writer, known: Mapping[str, KnownWriter], *, now: float) -> None:
    """Nothing, if no other known writer looks after anything of ours.

    Raises:
        Refused: Two scopes overlap; both are named.
    """
    rivals = [
        one
        for name, one in sorted(known.items())
        if name != writer.id
        and now - one.seen < FORGOTTEN_AFTER_SECONDS
        and scopes_overlap(writer.scope, one.writer.scope)
    ]
    if rivals:
        raise Refused(
            f"another writer looks after the same entities: {rivals[0].writer.id!r} ({rivals[0].writer.what})",
            violations=tuple(
                f"the scope of {writer.id!r} overlaps that of {one.writer.id!r}" for one in rivals
            ),
            hint="give the two QuotaClusters scopes that do not meet, or let one of them go",
        )


def scopes_overlap(one: tuple[EntityPattern, ...], other: tuple[EntityPattern, ...]) -> bool:
    """Whether some entity lies in both; an empty scope is everything."""
    return not one or not other or any(_meet(a, b) for a in one for b in other)


def _meet(one: EntityPattern, other: EntityPattern) -> bool:
    return any(_names_meet(one, other, shape) for shape in one.covered_forms & other.covered_forms)


def _names_meet(one: EntityPattern, other: EntityPattern, shape: Form) -> bool:
    return all(
        mine is None or theirs is None or not _is_named(shape, slot) or _names_overlap(mine, theirs)
        for slot, mine, theirs in (
            ("user", one.user, other.user),
            ("clientId", one.client_id, other.client_id),
            ("ip", one.ip, other.ip),
        )
    )


def _is_named(shape: Form, slot: str) -> bool:
    return slot in shape.value.split("+")


def _names_overlap(one: NamePattern, other: NamePattern) -> bool:
    if one.exact is not None:
        return other.matches(one.exact)
    if other.exact is not None:
        return one.matches(other.exact)
    mine, theirs = one.prefix or "", other.prefix or ""
    return mine.startswith(theirs) or theirs.startswith(mine)


def writer_to_json(known: KnownWriter) -> list[object]:
    """``[id, what, seen, [pattern…]]``."""
    return [
        known.writer.id,
        known.writer.what,
        known.seen,
        [_pattern_to_json(pattern) for pattern in known.writer.scope],
    ]


def writer_from_json(value: object) -> KnownWriter:
    """The inverse of :func:`writer_to_json`.

    Raises:
        ValueError: The value has another shape.
    """
    match value:
        case [str(name), str(what), float() | int() as seen, list(scope)]:
            patterns = tuple(_pattern_from_json(pattern) for pattern in scope)
            return KnownWriter(writer=Writer(id=name, what=what, scope=patterns), seen=float(seen))
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


def _forms(values: Iterable[object]) -> frozenset[Form]:
    return frozenset(Form(str(value)) for value in values)


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
