"""Policies, drift modes and deletion policies: one table of the permitted action for each cause, for the planner."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, TypeAlias

from msgspec import Struct

from reconciler.quota.entity import Entity
from reconciler.quota.keys import Key
from reconciler.quota.patterns import EntityPattern


class Policy(StrEnum):
    """The changes that a reconciler may make, from the strictest to the loosest; the command line only chooses a stricter one."""

    OBSERVE = "Observe"
    CREATE_ONLY = "CreateOnly"
    UPSERT = "Upsert"
    SYNC = "Sync"


STRICTNESS: Final = tuple(Policy)
"""Columns of the tables below."""


class DriftMode(StrEnum):
    """How to treat a live value that changed while the documents did not."""

    DISABLED = "Disabled"
    WARN = "Warn"
    CORRECT = "Correct"


class DeletionPolicy(StrEnum):
    """What happens to a quota when its document is deleted; unset means Retain under Upsert, Delete under Sync."""

    RETAIN = "Retain"
    DELETE = "Delete"


class Cause(StrEnum):
    """Why a pair is in the plan: rows of the three-way table, frozen pairs and temporary limits.

    ``Override`` is the temporary limit of a person, ``Temporary`` that of a document, and ``Ended`` the end of either.
    """

    IN_SYNC = "InSync"
    ADOPT = "Adopt"
    CREATE = "Create"
    TAKEOVER = "Takeover"
    SPEC = "Spec"
    CONVERGED = "Converged"
    DRIFT = "Drift"
    SPEC_OVER_DRIFT = "SpecOverDrift"
    PRUNE = "Prune"
    CHANGED_BY_ANOTHER = "ChangedByAnother"
    GONE = "Gone"
    UNMANAGED = "Unmanaged"
    FROZEN = "Frozen"
    OVERRIDE = "Override"
    TEMPORARY = "Temporary"
    ENDED = "Ended"


class Action(StrEnum):
    """What the planner does with a pair."""

    WRITE = "write"
    RECORD = "record"
    REPORT = "report"
    ORPHAN = "orphan"
    NOTHING = "nothing"


class DeclarationEnd(StrEnum):
    """How a pair stopped being declared; decides whether it may be removed."""

    KEY_LEFT = "key left its document"  # the document exists and no longer declares the pair
    EXPLICIT_DELETE = "deleted with deletionPolicy Delete"
    EXPLICIT_RETAIN = "deleted with deletionPolicy Retain"
    UNSET = "deleted without a deletionPolicy"
    NOT_READ = "not among the files of this run, which are not all documents"


ENDS: Final[Mapping[DeletionPolicy | None, DeclarationEnd]] = {
    DeletionPolicy.DELETE: DeclarationEnd.EXPLICIT_DELETE,
    DeletionPolicy.RETAIN: DeclarationEnd.EXPLICIT_RETAIN,
    None: DeclarationEnd.UNSET,
}
"""How a pair stopped being declared when its document was deleted, by the deletionPolicy recorded last."""


_Row: TypeAlias = tuple[Action, Action, Action, Action]
_W, _R, _P, _O, _N = Action.WRITE, Action.RECORD, Action.REPORT, Action.ORPHAN, Action.NOTHING

# Rows as in docs/semantics.md; columns as in Policy.
PERMITTED: Final[dict[Cause, _Row]] = {
    Cause.IN_SYNC: (_N, _N, _N, _N),
    Cause.ADOPT: (_P, _R, _R, _R),
    Cause.CREATE: (_P, _W, _W, _W),
    Cause.TAKEOVER: (_P, _P, _W, _W),
    Cause.SPEC: (_P, _P, _W, _W),
    Cause.CONVERGED: (_P, _R, _R, _R),
    Cause.SPEC_OVER_DRIFT: (_P, _P, _W, _W),
    Cause.GONE: (_P, _R, _R, _R),
    Cause.UNMANAGED: (_P, _P, _P, _P),
    Cause.FROZEN: (_P, _P, _P, _P),
    Cause.OVERRIDE: (_P, _P, _W, _W),
    Cause.TEMPORARY: (_P, _P, _W, _W),
    Cause.ENDED: (_P, _W, _W, _W),
}
DRIFT: Final[dict[DriftMode, _Row]] = {
    DriftMode.DISABLED: (_N, _N, _N, _N),
    DriftMode.WARN: (_P, _P, _P, _P),
    DriftMode.CORRECT: (_P, _P, _W, _W),
}
PRUNE: Final[dict[DeclarationEnd, _Row]] = {
    DeclarationEnd.KEY_LEFT: (_P, _P, _W, _W),
    DeclarationEnd.EXPLICIT_DELETE: (_P, _P, _W, _W),
    DeclarationEnd.EXPLICIT_RETAIN: (_O, _O, _O, _O),
    DeclarationEnd.UNSET: (_O, _O, _O, _W),
    DeclarationEnd.NOT_READ: (_P, _P, _P, _P),
}


REMOVING: Final = frozenset(
    policy
    for column, policy in enumerate(STRICTNESS)
    if any(actions[column] is _W for actions in PRUNE.values())
)
"""The policies under which a limit that is not declared any more may be removed."""

CORRECTING: Final = frozenset(
    policy for column, policy in enumerate(STRICTNESS) if DRIFT[DriftMode.CORRECT][column] is _W
)
"""The policies under which drift may be corrected."""


class IgnoreRule(Struct, frozen=True, kw_only=True, gc=False):
    """A difference that is shown as ignored and never written, optionally until a time."""

    entities: EntityPattern
    reason: str  # the reason; shown wherever the rule applies
    keys: frozenset[Key] = frozenset()  # the quota keys; empty = all
    until: float | None = None  # seconds since the epoch; None = no end

    def covers(self, subject: Entity, key: Key, now: float) -> bool:
        """Whether the rule applies to this pair now."""
        return (
            (self.until is None or now < self.until)
            and (not self.keys or key in self.keys)
            and self.entities.matches(subject)
        )


class Rules(Struct, frozen=True, kw_only=True, gc=False):
    """The trusted configuration that decides what a plan may do."""

    policy: Policy = Policy.UPSERT  # as configured. Sync without `sync_confirmed` acts as Upsert.
    sync_confirmed: bool = False  # whether Sync was confirmed for this cluster
    drift: DriftMode = DriftMode.WARN  # how to treat drift
    # The managed entities; empty = all. The loader refuses declarations outside it.
    scope: tuple[EntityPattern, ...] = ()
    ignore: tuple[IgnoreRule, ...] = ()  # differences that are shown as ignored and never written
    complete: bool = True  # whether every document was read; otherwise nothing is removed
    # Whether a project, the API server or a confirmation of this run says which documents are all. Otherwise files were
    # given, and a document that is not among them was not deleted.
    configured: bool = True
    # Whether there is an inventory or a revision that records the owned pairs.
    removals_known: bool = True
    force: bool = False  # also remove pairs that another writer changed meanwhile

    @property
    def in_force(self) -> Policy:
        """The effective policy: Upsert instead of Sync without confirmation."""
        if self.policy is Policy.SYNC and not self.sync_confirmed:
            return Policy.UPSERT
        return self.policy

    @property
    def may_record(self) -> bool:
        """Whether the records may change."""
        return self.in_force is not Policy.OBSERVE

    def in_scope(self, subject: Entity) -> bool:
        """Whether the entity is in scope; always true without a scope."""
        return not self.scope or any(pattern.matches(subject) for pattern in self.scope)

    def ignored(self, subject: Entity, key: Key, now: float) -> IgnoreRule | None:
        """Return the first ignore rule that applies to the pair."""
        return next((rule for rule in self.ignore if rule.covers(subject, key, now)), None)

    def permits_override(self, live: float | None) -> Action:
        """Return the permitted action where a temporary limit begins: that of a document with its value."""
        return self.permits(Cause.CREATE if live is None else Cause.OVERRIDE)

    def permits(
        self, cause: Cause, end: DeclarationEnd | None = None, *, is_orphaned: bool = False
    ) -> Action:
        """Return the permitted action for a pair with this cause.

        Args:
            cause: The row of the three-way table.
            end: How an owned pair stopped being declared; ``None`` counts as retained.
            is_orphaned: Whether the pair is already recorded as orphaned.
        """
        column = STRICTNESS.index(self.in_force)
        prune = PRUNE[end or DeclarationEnd.EXPLICIT_RETAIN][column]
        match cause:
            case Cause.DRIFT:
                return DRIFT[self.drift][column]
            case Cause.PRUNE if self.complete or (is_orphaned and prune is Action.ORPHAN):
                return prune  # An orphaned pair stays orphaned, even if a document was not read.
            case Cause.PRUNE | Cause.GONE if not self.complete or end is DeclarationEnd.NOT_READ:
                # A document that was not read may still declare the pair.
                return Action.REPORT
            case Cause.CHANGED_BY_ANOTHER:
                return self.permits(Cause.PRUNE, end) if self.force else Action.REPORT
            case _:
                return PERMITTED[cause][column]
