"""The plan and its parts: changes, findings, and the state after them.

Decides nothing: ``comparison.py`` compares, ``send_order.py`` orders, ``guards.py`` refuses.
"""

from collections.abc import Iterable

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from reconciler.quota.entity import Entity
from reconciler.quota.keys import Key
from reconciler.quota.ownership import Owner, Pair, ProjectNamed, RecordChange, pair_of
from reconciler.quota.planner.desired_state import Declaration, DeclarationConflict
from reconciler.quota.policy import Action, Cause
from reconciler.quota.state import QuotaState

TEMPORARY = frozenset({Cause.OVERRIDE, Cause.TEMPORARY, Cause.ENDED})
"""The causes of temporary limits."""

BEGINNING = TEMPORARY - {Cause.ENDED}
"""Those of a temporary limit that begins or is in force."""

RESTRICTABLE = frozenset(
    {
        Cause.CREATE,
        Cause.TAKEOVER,
        Cause.SPEC,
        Cause.SPEC_OVER_DRIFT,
        Cause.PRUNE,
        *TEMPORARY,
    }
)
"""Causes that need a write: a finding with one of them was not written because the policy does not permit it."""


class QuotaChange(Struct, frozen=True, kw_only=True, gc=False):
    """One pair to write."""

    entity: Entity
    key: Key
    before: float | None  # live value, None = not set
    after: float | None  # value to set, None = remove. Differs from `before`.
    cause: Cause  # the row of the three-way table
    # The declaration of the pair: it declares `after`, or an override replaces it for now. None if no document
    # declares the pair, or none that may be used.
    claim: Declaration | None = None
    owner: Owner | None = None  # the owner after the change (or before, for a removal)
    applied: float | None = None  # value last applied, None = no record
    recorded: Owner | None = None  # the owner of that value
    is_orphaned: bool = False  # whether that value is an orphan
    # In an outcome: the value that returns at the end of the temporary limit from before the change; UNSET = there was none.
    returning: float | UnsetType | None = UNSET
    note: str = ""  # additional text for display, or ""
    of_override: bool = False  # for drift: whether the value of an override is written again

    @property
    def pair(self) -> Pair:
        """Entity and key."""
        return self.entity, self.key

    @property
    def base(self) -> float | None:
        """The value without temporary limits, from before the change of an outcome."""
        return self.before if self.returning is UNSET else self.returning

    @property
    def removes(self) -> bool:
        """Whether the pair is removed rather than set."""
        return self.after is None

    @property
    def is_temporary(self) -> bool:
        """Whether it belongs to a temporary limit: it begins, corrects or ends one."""
        return self.of_override or self.cause in TEMPORARY

    @property
    def is_reviewed(self) -> bool:
        """Whether a review approves it: what documents ask for, temporary or not; an end and a wish of a person are in none."""
        return not self.is_temporary or self.cause is Cause.TEMPORARY

    @property
    def keeps_record(self) -> bool:
        """Whether the record of the pair stays: an override is above it, or ends with the value from before it."""
        is_below = self.claim is not None and self.claim.until is None
        return self.is_temporary and (self.cause is not Cause.ENDED or not is_below)

    @property
    def ends_layer(self) -> bool:
        """Whether no temporary limit is left after it: a document with an end may follow another temporary limit."""
        return self.cause is Cause.ENDED and (self.claim is None or self.claim.until is None)

    @property
    def document(self) -> str:
        """The document that declares the pair, or else the one that owns it; "" = none."""
        source = self.claim or self.owner
        return "" if source is None else source.document

    @property
    def namespace(self) -> str:
        """The namespace of :attr:`document`: the tenant that the change belongs to."""
        return self.document.partition("/")[0]

    @property
    def action(self) -> str:
        """``create``, ``update`` or ``remove``."""
        if self.after is None:
            return "remove"
        return "create" if self.before is None else "update"


class Finding(Struct, frozen=True, kw_only=True, gc=False):
    """One pair that is reported and not written."""

    entity: Entity
    key: Key
    desired: float | None  # the declared value
    applied: float | None  # the value applied last
    live: float | None  # the live value
    cause: Cause  # the row of the three-way table
    # `REPORT`; `RECORD` or `ORPHAN` if the records change; `NOTHING` for an override that is active and live.
    action: Action
    claim: Declaration | None = None  # the declaration, if there is one
    owner: Owner | None = None  # the owner, if there is a record
    since: float | None = None  # for drift: when it was first seen, in seconds since the epoch
    note: str = ""  # additional text for display, or ""
    ignored: bool = False  # whether an ignore rule covers it; `note` has its reason
    # For an orphan: whether its document is deleted, and no earlier run recorded that.
    is_new: bool = False
    of_override: bool = False  # for drift: whether the value of an override is not live any more

    @property
    def pair(self) -> Pair:
        """Entity and key."""
        return self.entity, self.key


class Plan(Struct, frozen=True, kw_only=True, gc=False):
    """The changes, findings and record changes for one cluster."""

    cluster_id: str
    changes: tuple[QuotaChange, ...] = ()  # the writes, by entity (level, names) and column
    # What documents declare anew under overrides, in place of the value from before: written at the end, judged now.
    pending: tuple[QuotaChange, ...] = ()
    findings: tuple[Finding, ...] = ()  # pairs that are only reported, in the same order
    # Changes of the records that need no write to the broker.
    bookkeeping: tuple[RecordChange, ...] = ()
    conflicts: tuple[DeclarationConflict, ...] = ()  # pairs that two documents claim
    documents: int = 0  # number of documents, frozen ones included
    desired_pairs: int = 0  # number of declared pairs
    in_sync: int = 0  # number of declared pairs that need no change
    owned_pairs: int = 0  # number of owned pairs before this plan
    removals_known: bool = True  # whether an inventory or a revision determines removals
    complete: bool = True  # whether every document was read
    ended: frozenset[str] = frozenset()  # documents whose end is over

    @property
    def reviewed(self) -> tuple[QuotaChange, ...]:
        """What documents change, also where an override is above it."""
        return (*(change for change in self.changes if change.is_reviewed), *self.pending)

    @property
    def delayed(self) -> tuple[QuotaChange, ...]:
        """Of what is pending, what a temporary limit delays: without what this plan writes, because the limit ends with it."""
        written = {(each.pair, each.after) for each in self.changes if each.cause is Cause.ENDED}
        return tuple(each for each in self.pending if (each.pair, each.after) not in written)

    def findings_for(self, *causes: Cause) -> tuple[Finding, ...]:
        """Return the findings with these causes."""
        return tuple(finding for finding in self.findings if finding.cause in causes)

    @property
    def drift(self) -> tuple[Finding | QuotaChange, ...]:
        """Pairs that were changed outside kquota, reported or corrected; without ignored ones."""
        reported = tuple(
            finding for finding in self.findings_for(Cause.DRIFT) if not finding.ignored
        )
        return (*reported, *(change for change in self.changes if change.cause is Cause.DRIFT))

    @property
    def adopted(self) -> tuple[Finding, ...]:
        """Pairs whose live value is the declared one and not recorded yet: only the record is written."""
        return self.findings_for(Cause.ADOPT, Cause.CONVERGED)

    @property
    def records_to_update(self) -> int:
        """Number of pairs of which only the record changes, without adopted ones."""
        pairs = {pair_of(item) for item in self.bookkeeping if not isinstance(item, ProjectNamed)}
        return len(pairs.difference(finding.pair for finding in self.adopted))

    @property
    def unmanaged(self) -> tuple[Finding, ...]:
        """Live pairs that no document declares and kquota does not own."""
        return self.findings_for(Cause.UNMANAGED)

    @property
    def orphans(self) -> tuple[Finding, ...]:
        """Owned pairs whose document was deleted and whose value stays."""
        return tuple(finding for finding in self.findings if finding.action is Action.ORPHAN)

    @property
    def restricted(self) -> tuple[Finding, ...]:
        """Differences that the effective policy does not permit to write."""
        return tuple(
            finding
            for finding in self.findings
            if finding.action is Action.REPORT
            and finding.cause in RESTRICTABLE
            and not finding.ignored
        )


class PlanRemainder(Struct, frozen=True, kw_only=True, gc=False):
    """What a plan of some entities leaves out: the findings and counts of all others, which it does not change."""

    documents: int = 0  # number of documents, frozen ones included
    desired_pairs: int = 0  # number of declared pairs
    in_sync: int = 0  # number of declared pairs that need no change
    findings: tuple[Finding, ...] = ()  # pairs that are only reported

    def added_to(self, plan: Plan) -> Plan:
        """Return the plan of some entities as one of the whole cluster."""
        return replace(
            plan,
            findings=(*plan.findings, *self.findings),
            documents=plan.documents + self.documents,
            desired_pairs=plan.desired_pairs + self.desired_pairs,
            in_sync=plan.in_sync + self.in_sync,
        )


def apply_to(state: QuotaState, changes: Iterable[QuotaChange]) -> QuotaState:
    """Return the state after these changes, for previews, impact and proofs."""
    return state.with_values((change.entity, change.key, change.after) for change in changes)
