"""Several documents for one pair where nobody can refuse the whole run: who wins, and who has to be told.

In git two documents for one pair are an error (``desired.merge``). In Kubernetes they belong to different people, so
one of them wins: the higher grant, then who holds the pair already, then who was there first, then the name. Nothing
depends on the order in which documents were seen.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from reconciler.quota.desired import Declaration, Desired, merge
from reconciler.quota.entity import Entity
from reconciler.quota.keys import COLUMN_OF, COLUMNS, Key
from reconciler.quota.owned import NO_RECORD, Owned, Pair
from reconciler.quota.state import NO_LIMITS, Limits

Losses: TypeAlias = Mapping[str, Mapping[Pair, str]]
"""Document -> pair that it asks for and does not get -> the document that has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A document that is valid, granted and not on its way out, and what decides between it and others.

    Attributes:
        declaration: What it asks for.
        priority: Of the grant that covers it; smaller wins.
        created: When it was created, in seconds since the epoch; earlier wins.
    """

    declaration: Declaration
    priority: int = 0
    created: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What all documents together ask for, without a conflict left in it.

    Attributes:
        desired: The desired state; ``conflicts`` is empty.
        losses: Who asks for what and does not get it.
    """

    desired: Desired
    losses: Losses = field(default_factory=dict[str, Mapping[Pair, str]])


def settle(
    claims: Iterable[Claim],
    *,
    owned: Owned,
    frozen: Iterable[str] = (),
    halted: Iterable[Pair] = (),
    others: Iterable[str] = (),
) -> Settled:
    """One desired state in which every pair has one claim.

    A document that loses a pair claims and freezes nothing of it; for its other pairs it counts as before.

    Args:
        claims: The documents that may claim; suspended ones are taken as frozen.
        owned: The records, which tell who holds a pair at present.
        frozen: Documents that exist and must not claim anything (invalid, not granted, suspended).
        halted: Pairs that frozen documents would ask for, as far as that is known.
        others: Documents that exist but neither claim nor freeze (terminating ones that were released).
    """
    everything = tuple(claims)
    by_entity: dict[Entity, list[Claim]] = {}
    for one in everything:
        if not one.declaration.suspended:
            by_entity.setdefault(one.declaration.entity, []).append(one)
    losses: dict[str, dict[Pair, str]] = {}
    counted = [one.declaration for one in everything if one.declaration.suspended]
    for subject, rivals in by_entity.items():
        if len(rivals) == 1:
            counted.append(rivals[0].declaration)
        else:
            counted.extend(_settled(subject, rivals, owned, losses))
    desired = merge(counted, frozen=frozen)
    everybody = {one.declaration.document for one in everything}
    return Settled(
        desired=replace(
            desired,
            documents=desired.documents | everybody | frozenset(others),
            halted=desired.halted | frozenset(halted),
        ),
        losses=losses,
    )


def _settled(
    subject: Entity, rivals: list[Claim], owned: Owned, losses: dict[str, dict[Pair, str]]
) -> Iterable[Declaration]:
    """The rivals' declarations without the columns that they lose; nothing of those that lose all."""
    winners = {key: _winner(key, rivals, owned) for key in COLUMNS}
    for one in rivals:
        mine = one.declaration
        for key, value in zip(COLUMNS, mine.limits, strict=True):
            winner = winners[key]
            if value is not None and winner is not None and winner is not one:
                lost = losses.setdefault(mine.document, {})
                lost[subject, key] = winner.declaration.document
        kept = _only(mine.limits, [key for key in COLUMNS if winners[key] is one])
        if kept != NO_LIMITS:
            yield replace(mine, limits=kept)


def _winner(key: Key, rivals: Iterable[Claim], owned: Owned) -> Claim | None:
    column = COLUMN_OF[key]
    asking = [one for one in rivals if one.declaration.limits[column] is not None]
    if not asking:
        return None
    owner = owned.records.get(asking[0].declaration.entity, NO_RECORD).owners[column]
    holder = None if owner is None else owner.document

    def rank(one: Claim) -> tuple[int, bool, float, str]:
        document = one.declaration.document
        return one.priority, document != holder, one.created, document

    return min(asking, key=rank)


def _only(limits: Limits, keys: Iterable[Key]) -> Limits:
    kept = {COLUMN_OF[key] for key in keys}
    one, two, three, four, five = (
        value if column in kept else None for column, value in enumerate(limits)
    )
    return one, two, three, four, five
