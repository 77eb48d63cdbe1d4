"""The desired state: all documents merged, with the declaration of each limit and the conflicts between documents.

In git two documents for one pair are an error (:func:`merge`). In Kubernetes they belong to different people, so
one wins: by priority of the grant, then the current owner of the pair, then the older document, then the name. The
result does not depend on the order in which documents arrive.
"""

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.errors import Problem
from reconciler.quota.entity import Entity, entity_text, sort_key
from reconciler.quota.keys import COLUMN_OF, COLUMNS, Key, KeyColumns, key_columns
from reconciler.quota.ownership import NO_RECORD, OwnershipRecords, Pair
from reconciler.quota.policy import DeletionPolicy
from reconciler.quota.state import NO_LIMITS, Limits, set_values

Lines: TypeAlias = KeyColumns[int]
NO_LINES: Final[Lines] = key_columns([0] * len(COLUMNS))

Selections: TypeAlias = KeyColumns[str]
NO_SELECTIONS: Final[Selections] = key_columns([""] * len(COLUMNS))


class Declaration(Struct, frozen=True, kw_only=True, gc=False):
    """The limits and settings of one document."""

    document: str  # `namespace/name`
    entity: Entity  # the entity whose limits it declares
    limits: Limits  # the limits, in columns; at least one is set
    path: str = ""  # the file (or resource) of the document
    line: int = 0  # first line of the document, from 1
    lines: Lines = NO_LINES  # line of each limit, in columns; 0 if it has none
    # What happens to the limits when the document is deleted; None = unset.
    deletion_policy: DeletionPolicy | None = None
    suspended: bool = False  # whether it claims nothing and freezes its recorded pairs
    # When its limits end, in seconds since the epoch; None = never. Until then they are above those of other documents.
    until: float | None = None
    tenant: str = ""  # the namespaces of the grant that covers it; "" without grants
    labels: tuple[tuple[str, str], ...] = ()  # its labels as `(name, value)`, sorted
    # Kinds of warnings that it accepts as `(kind, reason)`, sorted; a kind may be unknown.
    accepted: tuple[tuple[str, str], ...] = ()
    # Its annotations as `(name, value)`, for a document that replaces it; no effect on the plan.
    annotations: tuple[tuple[str, str], ...] = ()
    # Why each limit applies to this cluster, in columns: the selector of the document and the item that replaced the
    # value. Empty if the document names the cluster. No effect on the plan.
    selections: Selections = NO_SELECTIONS

    def has_ended(self, now: float) -> bool:
        """Whether its limits have ended, so that it declares nothing."""
        return self.until is not None and self.until <= now

    def line_of(self, key: Key) -> int:
        """Return the line of the limit for a key, or of the document."""
        return self.lines[COLUMN_OF[key]] or self.line

    def selection_of(self, key: Key) -> str:
        """Return why the limit of a key applies to this cluster; "" if the document names the cluster."""
        return self.selections[COLUMN_OF[key]]

    def place(self, key: Key) -> str:
        """Return ``path:line`` of the limit for a key; "" if the declaration is from no file."""
        return f"{self.path}:{self.line_of(key)}" if self.path else ""


class DeclarationConflict(Struct, frozen=True, kw_only=True, gc=False):
    """Two or more documents that declare one pair, with equal values or not."""

    entity: Entity
    key: Key
    claims: tuple[Declaration, ...]  # the declarations, sorted by path, line and document


class DesiredState(Struct, frozen=True, kw_only=True, gc=False):
    """The limits that all documents together declare.

    Raises:
        ValueError: An entity has limits without a claim, or a claim without limits.
    """

    # Per entity, in columns. A pair in conflict is omitted.
    limits: Mapping[Entity, Limits] = field(default_factory=dict[Entity, Limits])
    # Per entity, its declarations, sorted.
    claims: Mapping[Entity, tuple[Declaration, ...]] = field(
        default_factory=dict[Entity, tuple[Declaration, ...]]
    )
    conflicts: tuple[DeclarationConflict, ...] = ()  # sorted by entity and column
    documents: frozenset[str] = frozenset()  # every document that exists, frozen ones included
    # Documents that claim nothing now (suspended, invalid, not granted); their recorded pairs are neither written nor
    # removed.
    frozen: frozenset[str] = frozenset()
    # Pairs that frozen documents declare, as far as they are readable: never treated as unmanaged.
    halted: frozenset[tuple[Entity, Key]] = frozenset()
    # The documents with an end, by the pairs that they declare. They are above `claims`; a pair in conflict is omitted.
    temporary: Mapping[tuple[Entity, Key], Declaration] = field(
        default_factory=dict[tuple[Entity, Key], Declaration]
    )
    ended: tuple[Declaration, ...] = ()  # the documents whose end is over: they declare nothing

    def __post_init__(self) -> None:
        if self.limits.keys() != self.claims.keys():
            raise ValueError("every desired entity needs a claim, and every claim limits")

    @property
    def pair_count(self) -> int:
        """The number of declared pairs."""
        unset = sum(limits.count(None) for limits in self.limits.values())
        return len(COLUMNS) * len(self.limits) - unset

    @property
    def declarations(self) -> tuple[Declaration, ...]:
        """The documents that declare limits now, each once; not frozen ones, and none that has ended."""
        lasting = (claim for claims in self.claims.values() for claim in claims)
        temporary = {claim.document: claim for claim in self.temporary.values()}
        return (*lasting, *temporary.values())

    def decides(self, subject: Entity, key: Key, owner: str) -> bool:
        """Whether the documents say what a recorded pair should be: one declares it, and no frozen one owns it."""
        return self.value(subject, key) is not None and owner not in self.frozen

    def value(self, subject: Entity, key: Key) -> float | None:
        """Return the declared value of a pair; ``None`` = not declared, or in conflict."""
        return self.limits.get(subject, NO_LIMITS)[COLUMN_OF[key]]

    def claim(self, subject: Entity, key: Key) -> Declaration | None:
        """Return the declaration of a desired pair."""
        column = COLUMN_OF[key]
        for declaration in self.claims.get(subject, ()):
            if declaration.limits[column] is not None:
                return declaration
        return None


def conflict_problems(conflicts: Iterable[DeclarationConflict]) -> list[Problem]:
    """Return each conflict as problems at all its places."""
    problems: list[Problem] = []
    for conflict in conflicts:
        subject = entity_text(conflict.entity)
        for claim in conflict.claims:
            other_claims = ", ".join(
                " at ".join(filter(None, (other_claim.document, other_claim.place(conflict.key))))
                for other_claim in conflict.claims
                if other_claim is not claim
            )
            words = f"{conflict.key} of {subject} is declared by {claim.document}, and by {other_claims}"
            problems.append(Problem(claim.path, claim.line_of(conflict.key), 1, words))
    return problems


def merge(
    declarations: Iterable[Declaration], *, frozen: Iterable[str] = (), now: float = 0.0
) -> DesiredState:
    """Merge documents into one desired state; their order has no effect on the limits.

    Args:
        declarations: Valid documents; suspended ones are treated as frozen.
        frozen: Names of other documents that exist but must not claim anything.
        now: Seconds since the epoch: documents that have ended declare nothing.
    """
    all_declarations = tuple(declarations)
    frozen_documents = {candidate.document for candidate in all_declarations if candidate.suspended}
    frozen_documents.update(frozen)
    halted: set[tuple[Entity, Key]] = set()
    limits: dict[Entity, Limits] = {}
    claims: dict[Entity, tuple[Declaration, ...]] = {}
    shared: set[Entity] = set()
    temporary: dict[tuple[Entity, Key], tuple[Declaration, ...]] = {}
    ended: list[Declaration] = []
    for declaration in all_declarations:
        if declaration.document in frozen_documents:
            halted.update((declaration.entity, key) for key, _ in set_values(declaration.limits))
        elif declaration.has_ended(now):
            ended.append(declaration)
        elif declaration.until is not None:
            for key, _ in set_values(declaration.limits):
                pair = declaration.entity, key
                temporary[pair] = (*temporary.get(pair, ()), declaration)
        elif declaration.entity in claims:
            claims[declaration.entity] += (declaration,)
            shared.add(declaration.entity)
        else:
            claims[declaration.entity] = (declaration,)
            limits[declaration.entity] = declaration.limits
    conflicts: list[DeclarationConflict] = []
    for subject in sorted(shared, key=sort_key):
        claims[subject] = tuple(sorted(claims[subject], key=_place))
        limits[subject], entity_conflicts = _merge_limits(subject, claims[subject])
        conflicts.extend(entity_conflicts)
    for (subject, key), above in temporary.items():
        below = [
            item for item in claims.get(subject, ()) if item.limits[COLUMN_OF[key]] is not None
        ]
        if len({item.tenant for item in (*above, *below)}) > 1 or len(above) > 1:
            competing = tuple(sorted((*above, *below), key=_place))
            conflicts.append(DeclarationConflict(entity=subject, key=key, claims=competing))
    conflicts.sort(key=lambda conflict: (sort_key(conflict.entity), COLUMN_OF[conflict.key]))
    contested = {(conflict.entity, conflict.key) for conflict in conflicts}
    return DesiredState(
        limits=limits,
        claims=claims,
        conflicts=tuple(conflicts),
        documents=frozenset(
            frozen_documents.union(candidate.document for candidate in all_declarations)
        ),
        frozen=frozenset(frozen_documents),
        halted=frozenset(halted),
        temporary={pair: above[0] for pair, above in temporary.items() if pair not in contested},
        ended=tuple(ended),
    )


def _merge_limits(
    subject: Entity, claims: tuple[Declaration, ...]
) -> tuple[Limits, list[DeclarationConflict]]:
    """Merge the limits of an entity with several documents; return them and the columns that two documents claim."""
    columns: list[float | None] = []
    conflicts: list[DeclarationConflict] = []
    for column, key in enumerate(COLUMNS):
        declarations = tuple(
            declaration for declaration in claims if declaration.limits[column] is not None
        )
        columns.append(declarations[0].limits[column] if len(declarations) == 1 else None)
        if len(declarations) > 1:
            conflicts.append(DeclarationConflict(entity=subject, key=key, claims=declarations))
    return key_columns(columns), conflicts


def _place(declaration: Declaration) -> tuple[str, int, str]:
    return declaration.path, declaration.line, declaration.document


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
