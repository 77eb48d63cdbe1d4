"""Conflicts of several documents over one pair in Kubernetes: selects the winner and reports the losers.

In git two documents for one pair are an error (``desired.merge``). In Kubernetes they belong to different people, so
one wins: by priority of the grant, then the current owner of the pair, then the older document, then the name. The
result does not depend on the order in which documents arrive.
"""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.quota.entity import Entity
from reconciler.quota.keys import COLUMN_OF, COLUMNS, Key, key_columns
from reconciler.quota.ownership import NO_RECORD, OwnershipRecords, Pair
from reconciler.quota.planner.desired_state import Declaration, DesiredState, merge
from reconciler.quota.state import NO_LIMITS, Limits

Losses: TypeAlias = Mapping[str, Mapping[Pair, str]]
"""Document -> pair that it declares and loses -> the document that wins it."""


class Claim(Struct, frozen=True, kw_only=True, gc=False):
    """A valid, granted document that is not being deleted, with its rank in conflicts."""

    declaration: Declaration  # the limits that it declares
    priority: int = 0  # priority of the grant that covers it; smaller wins
    created: float = 0.0  # when it was created, in seconds since the epoch; earlier wins

    @property
    def namespace(self) -> str:
        """The namespace of its document."""
        return self.declaration.document.partition("/")[0]


class ResolvedClaims(Struct, frozen=True, kw_only=True, gc=False):
    """The result of resolving all claims."""

    desired: DesiredState  # the desired state; `conflicts` is empty
    # The pairs that each document declares and loses.
    losses: Losses = field(default_factory=dict[str, Mapping[Pair, str]])


def resolve_claims(
    claims: Iterable[Claim],
    *,
    owned: OwnershipRecords,
    frozen: Iterable[str] = (),
    halted: Iterable[Pair] = (),
    other_documents: Iterable[str] = (),
    now: float = 0.0,
) -> ResolvedClaims:
    """Return one desired state in which every pair has one claim.

    A document that loses a pair neither claims nor freezes it; its other pairs are unaffected.

    Args:
        claims: The documents that may claim; suspended ones are treated as frozen.
        owned: The records with the current owner of each pair.
        frozen: Documents that exist and must not claim anything (invalid, not granted, suspended).
        halted: Pairs that frozen documents declare, as far as they are readable.
        other_documents: Documents that exist but neither claim nor freeze (terminating ones that were released).
        now: Seconds since the epoch: documents that have ended claim nothing.
    """
    all_claims = tuple(claims)
    by_entity: dict[Entity, list[Claim]] = {}
    for claim in all_claims:
        if not claim.declaration.suspended and not claim.declaration.has_ended(now):
            by_entity.setdefault(claim.declaration.entity, []).append(claim)
    losses: dict[str, dict[Pair, str]] = {}
    declarations = [
        candidate.declaration for candidate in all_claims if candidate.declaration.suspended
    ]
    for subject, competing_claims in by_entity.items():
        if len(competing_claims) == 1:
            declarations.append(competing_claims[0].declaration)
        else:
            declarations.extend(_resolve_entity(subject, competing_claims, owned, losses))
    desired = merge(declarations, frozen=frozen, now=now)
    all_documents = {candidate.declaration.document for candidate in all_claims}
    return ResolvedClaims(
        desired=replace(
            desired,
            documents=desired.documents | all_documents | frozenset(other_documents),
            halted=desired.halted | frozenset(halted),
        ),
        losses=losses,
    )


def _resolve_entity(
    subject: Entity,
    competing_claims: list[Claim],
    owned: OwnershipRecords,
    losses: dict[str, dict[Pair, str]],
) -> Iterable[Declaration]:
    """Yield the competing declarations without the columns that they lose; a declaration that loses all is omitted.

    One with an end wins over another one of its namespace, and over none of another namespace.
    """
    lasting = [claim for claim in competing_claims if claim.declaration.until is None]
    temporary = [claim for claim in competing_claims if claim.declaration.until is not None]
    below = {key: _winner(key, lasting, owned) for key in COLUMNS}
    above: dict[Key, Claim | None] = {}
    for key, lowest in below.items():
        own = [
            claim for claim in temporary if lowest is None or claim.namespace == lowest.namespace
        ]
        above[key] = _winner(key, own, owned) or lowest
    for claim in competing_claims:
        declaration = claim.declaration
        winners = below if declaration.until is None else above
        for key, value in zip(COLUMNS, declaration.limits, strict=True):
            winner = winners[key]
            if value is not None and winner is not None and winner is not claim:
                lost_keys = losses.setdefault(declaration.document, {})
                lost_keys[subject, key] = winner.declaration.document
        won_limits = _only(declaration.limits, [key for key in COLUMNS if winners[key] is claim])
        if won_limits != NO_LIMITS:
            yield replace(declaration, limits=won_limits)


def _winner(key: Key, competing_claims: Iterable[Claim], owned: OwnershipRecords) -> Claim | None:
    column = COLUMN_OF[key]
    claims = [claim for claim in competing_claims if claim.declaration.limits[column] is not None]
    if not claims:
        return None
    owner = owned.records.get(claims[0].declaration.entity, NO_RECORD).owners[column]
    holder = None if owner is None else owner.document

    def rank(claim: Claim) -> tuple[int, bool, float, str]:
        document = claim.declaration.document
        return claim.priority, document != holder, claim.created, document

    return min(claims, key=rank)


def _only(limits: Limits, keys: Iterable[Key]) -> Limits:
    columns = {COLUMN_OF[key] for key in keys}
    return key_columns(
        [value if column in columns else None for column, value in enumerate(limits)]
    )
