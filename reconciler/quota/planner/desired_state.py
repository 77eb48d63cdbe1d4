"""The desired state: all documents merged, with the declaration of each limit and the conflicts between documents."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from reconciler.quota.entity import Entity, sort_key
from reconciler.quota.keys import COLUMN_OF, COLUMNS, Key, KeyColumns, key_columns
from reconciler.quota.policy import DeletionPolicy
from reconciler.quota.state import Limits, set_values

Lines: TypeAlias = KeyColumns[int]
NO_LINES: Final[Lines] = key_columns([0] * len(COLUMNS))

Selections: TypeAlias = KeyColumns[str]
NO_SELECTIONS: Final[Selections] = key_columns([""] * len(COLUMNS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """The limits and settings of one document.

    Attributes:
        document: ``namespace/name``.
        entity: The entity whose limits it declares.
        limits: The limits, in columns; at least one is set.
        path: The file (or resource) of the document.
        line: First line of the document, from 1.
        lines: Line of each limit, in columns; 0 if it has none.
        deletion_policy: What happens to the limits when the document is deleted; ``None`` = unset.
        suspended: Whether it claims nothing and freezes its recorded pairs.
        labels: Its labels as ``(name, value)``, sorted.
        accepted: Kinds of warnings that it accepts as ``(kind, reason)``, sorted; a kind may be unknown.
        annotations: Its annotations as ``(name, value)``, for a document that replaces it; no effect on the plan.
        selections: Why each limit applies to this cluster, in columns: the selector of the document and the item that
            replaced the value. Empty if the document names the cluster. No effect on the plan.
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
        """Return the line of the limit for a key, or of the document."""
        return self.lines[COLUMN_OF[key]] or self.line

    def selection_of(self, key: Key) -> str:
        """Return why the limit of a key applies to this cluster; "" if the document names the cluster."""
        return self.selections[COLUMN_OF[key]]

    def place(self, key: Key) -> str:
        """Return ``path:line`` of the limit for a key."""
        return f"{self.path}:{self.line_of(key)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclarationConflict:
    """Two or more documents that declare one pair, with equal values or not.

    Attributes:
        entity: The entity.
        key: The quota key.
        claims: The declarations, sorted by path, line and document.
    """

    entity: Entity
    key: Key
    claims: tuple[Declaration, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredState:
    """The limits that all documents together declare.

    Attributes:
        limits: Per entity, in columns. A pair in conflict is omitted.
        claims: Per entity, its declarations, sorted.
        conflicts: Sorted by entity and column.
        documents: Every document that exists, frozen ones included.
        frozen: Documents that claim nothing now (suspended, invalid, not granted); their recorded pairs are
            neither written nor removed.
        halted: Pairs that frozen documents declare, as far as they are readable: never treated as unmanaged.
        pair_count: Number of declared pairs.

    Raises:
        ValueError: An entity has limits without a claim, or a claim without limits.
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
        """Return the declaration of a desired pair."""
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
    """Merge documents into one desired state; their order has no effect on the limits.

    Args:
        declarations: Valid documents; suspended ones are treated as frozen.
        frozen: Names of other documents that exist but must not claim anything.
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
