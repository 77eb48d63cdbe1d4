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

    def line_of(self, key: Key) -> int:
        """Line of the rule for a key, or of the document."""
        return self.lines[COLUMN_OF[key]] or self.line

    def place(self, key: Key) -> str:
        """``path:line`` of the rule for a key."""
        return f"{self.path}:{self.line_of(key)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
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
class Desired:
    """What all documents together ask for.

    Attributes:
        limits: Per entity, in columns. A pair in conflict is not in it.
        claims: Per entity, the declarations that speak of it, sorted.
        conflicts: Sorted by entity and column.
        documents: Every document that exists, frozen ones included.
        frozen: Documents that claim nothing now (suspended, invalid, not granted); pairs recorded as theirs are
            neither written nor removed.
        halted: Pairs that frozen documents would ask for, as far as that is known: never taken for nobody's.
        pair_count: How many pairs are asked for.

    Raises:
        ValueError: An entity has limits without a claim, or the other way round.
    """

    limits: Mapping[Entity, Limits] = field(default_factory=dict[Entity, Limits])
    claims: Mapping[Entity, tuple[Declaration, ...]] = field(
        default_factory=dict[Entity, tuple[Declaration, ...]]
    )
    conflicts: tuple[Conflict, ...] = ()
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
            (one for one in self.claims.get(subject, ()) if one.limits[column] is not None), None
        )


def merge(declarations: Iterable[Declaration], *, frozen: Iterable[str] = ()) -> Desired:
    """One desired state from many documents; their order never matters.

    Args:
        declarations: Valid documents; suspended ones are taken as frozen.
        frozen: Names of further documents that exist but must not claim anything.
    """
    everything = tuple(declarations)
    silent = {one.document for one in everything if one.suspended}
    silent.update(frozen)
    halted: set[tuple[Entity, Key]] = set()
    limits: dict[Entity, Limits] = {}
    claims: dict[Entity, tuple[Declaration, ...]] = {}
    shared: set[Entity] = set()
    for one in everything:
        if one.document in silent:
            halted.update((one.entity, key) for key, _ in set_values(one.limits))
        elif one.entity in claims:
            claims[one.entity] += (one,)
            shared.add(one.entity)
        else:
            claims[one.entity] = (one,)
            limits[one.entity] = one.limits
    conflicts: list[Conflict] = []
    for subject in sorted(shared, key=sort_key):
        claims[subject] = tuple(sorted(claims[subject], key=_place))
        limits[subject], found = _fold(subject, claims[subject])
        conflicts.extend(found)
    return Desired(
        limits=limits,
        claims=claims,
        conflicts=tuple(conflicts),
        documents=frozenset(silent.union(one.document for one in everything)),
        frozen=frozenset(silent),
        halted=frozenset(halted),
    )


def _fold(subject: Entity, claims: tuple[Declaration, ...]) -> tuple[Limits, list[Conflict]]:
    """Limits of an entity that several documents speak of, and the columns that two of them claim."""
    columns: list[float | None] = []
    conflicts: list[Conflict] = []
    for column, key in enumerate(COLUMNS):
        named = tuple(one for one in claims if one.limits[column] is not None)
        columns.append(named[0].limits[column] if len(named) == 1 else None)
        if len(named) > 1:
            conflicts.append(Conflict(entity=subject, key=key, claims=named))
    producer, consumer, request, mutation, connection = columns
    return (producer, consumer, request, mutation, connection), conflicts


def _place(one: Declaration) -> tuple[str, int, str]:
    return one.path, one.line, one.document
