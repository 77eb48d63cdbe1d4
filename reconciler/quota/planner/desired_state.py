"""Many documents folded into one desired state that remembers who said what; and where two disagree."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from reconciler.quota.entity import Entity, sort_key
from reconciler.quota.keys import COLUMN_OF, COLUMNS, Key
from reconciler.quota.policy import DeletionPolicy
from reconciler.quota.state import Limits, set_values

Lines: TypeAlias = tuple[int, int, int, int, int]
NO_LINES: Final[Lines] = (0, 0, 0, 0, 0)

Selections: TypeAlias = tuple[str, str, str, str, str]
NO_SELECTIONS: Final[Selections] = ("", "", "", "", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """What one document asks for.

    Attributes:
        document: ``namespace/name``.
        entity: Whose limits.
        limits: The limits, in columns; at least one is set.
        path: File (or resource) that holds the document.
        line: Where the document begins, from 1.
        lines: Line of each limit, in columns; 0 where there is none.
        deletion_policy: What becomes of the limits when the document goes; ``None`` = unset.
        suspended: Whether it claims nothing and freezes what is recorded as its own.
        labels: Its labels as ``(name, value)``, sorted.
        accepted: Kinds of warnings that it accepts as ``(kind, reason)``, sorted; a kind may be unknown.
        annotations: Its annotations as ``(name, value)``, for a document that replaces it; they decide nothing.
        selections: Why each limit is meant for this cluster, in columns: the selector of the document and the item that
            replaced the value. Empty texts where the document names the cluster. They decide nothing.
    """

    document: str
    entity: Entity
    limits: Limits
    path: str = ""
    line: int = 0
    lines: Lines = NO_LINES
    deletion_policy: DeletionPolicy | None = None
    suspended: bool = False
    labels: tuple[tuple[str, str], ...] = ()
    accepted: tuple[tuple[str, str], ...] = ()
    annotations: tuple[tuple[str, str], ...] = field(default=(), compare=False, repr=False)
    selections: Selections = field(default=NO_SELECTIONS, compare=False)

    def line_of(self, key: Key) -> int:
        """Line of the rule for a key, or of the document."""
        return self.lines[COLUMN_OF[key]] or self.line

    def selection_of(self, key: Key) -> str:
        """Why the limit of a key is meant for this cluster; "" where the document names the cluster."""
        return self.selections[COLUMN_OF[key]]

    def place(self, key: Key) -> str:
        """``path:line`` of the rule for a key."""
        return f"{self.path}:{self.line_of(key)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclarationConflict:
    """Two or more documents ask for one pair, with equal values or not.

    Attributes:
        entity: Whose quota.
        key: Which key.
        claims: The declarations, sorted by path, line and document.
    """

    entity: Entity
    key: Key
    claims: tuple[Declaration, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredState:
    """What all documents together ask for.

    Attributes:
        limits: Per entity, in columns. A pair in conflict is not in it.
        claims: Per entity, the declarations that speak of it, sorted.
        conflicts: Sorted by entity and column.
        documents: Every document that exists, frozen ones included.
        frozen: Documents that claim nothing now (suspended, invalid, not granted); pairs recorded as theirs are
            neither written nor removed.
        halted: Pairs that frozen documents would ask for, as far as that is known: never taken for unmanaged.
        pair_count: How many pairs are asked for.

    Raises:
        ValueError: An entity has limits without a claim, or the other way round.
    """

    limits: Mapping[Entity, Limits] = field(default_factory=dict[Entity, Limits])
    claims: Mapping[Entity, tuple[Declaration, ...]] = field(
        default_factory=dict[Entity, tuple[Declaration, ...]]
    )
    conflicts: tuple[DeclarationConflict, ...] = ()
    documents: frozenset[str] = frozenset()
    frozen: frozenset[str] = frozenset()
    halted: frozenset[tuple[Entity, Key]] = frozenset()
    pair_count: int = field(init=False)

    def __post_init__(self) -> None:
        if self.limits.keys() != self.claims.keys():
            raise ValueError("every desired entity needs a claim, and every claim limits")
        unset = sum(limits.count(None) for limits in self.limits.values())
        object.__setattr__(self, "pair_count", len(COLUMNS) * len(self.limits) - unset)

    def claim(self, subject: Entity, key: Key) -> Declaration | None:
        """The declaration that a desired pair comes from."""
        column = COLUMN_OF[key]
        return next(
            (
                declaration
                for declaration in self.claims.get(subject, ())
                if declaration.limits[column] is not None
            ),
            None,
        )


def merge(declarations: Iterable[Declaration], *, frozen: Iterable[str] = ()) -> DesiredState:
    """One desired state from many documents; their order never matters.

    Args:
        declarations: Valid documents; suspended ones are taken as frozen.
        frozen: Names of further documents that exist but must not claim anything.
    """
    everything = tuple(declarations)
    silent = {candidate.document for candidate in everything if candidate.suspended}
    silent.update(frozen)
    halted: set[tuple[Entity, Key]] = set()
    limits: dict[Entity, Limits] = {}
    claims: dict[Entity, tuple[Declaration, ...]] = {}
    shared: set[Entity] = set()
    for declaration in everything:
        if declaration.document in silent:
            halted.update((declaration.entity, key) for key, _ in set_values(declaration.limits))
        elif declaration.entity in claims:
            claims[declaration.entity] += (declaration,)
            shared.add(declaration.entity)
        else:
            claims[declaration.entity] = (declaration,)
            limits[declaration.entity] = declaration.limits
    conflicts: list[DeclarationConflict] = []
    for subject in sorted(shared, key=sort_key):
        claims[subject] = tuple(sorted(claims[subject], key=_place))
        limits[subject], entity_conflicts = _fold(subject, claims[subject])
        conflicts.extend(entity_conflicts)
    return DesiredState(
        limits=limits,
        claims=claims,
        conflicts=tuple(conflicts),
        documents=frozenset(silent.union(candidate.document for candidate in everything)),
        frozen=frozenset(silent),
        halted=frozenset(halted),
    )


def _fold(
    subject: Entity, claims: tuple[Declaration, ...]
) -> tuple[Limits, list[DeclarationConflict]]:
    """Limits of an entity that several documents speak of, and the columns that two of them claim."""
    columns: list[float | None] = []
    conflicts: list[DeclarationConflict] = []
    for column, key in enumerate(COLUMNS):
        declarations = tuple(
            declaration for declaration in claims if declaration.limits[column] is not None
        )
        columns.append(declarations[0].limits[column] if len(declarations) == 1 else None)
        if len(declarations) > 1:
            conflicts.append(DeclarationConflict(entity=subject, key=key, claims=declarations))
    producer, consumer, request, mutation, connection = columns
    return (producer, consumer, request, mutation, connection), conflicts


def _place(declaration: Declaration) -> tuple[str, int, str]:
    return declaration.path, declaration.line, declaration.document
