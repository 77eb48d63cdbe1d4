"""The three-way table of a pair: desired, last applied and live value determine exactly one row.

    D desired, L last applied, V live; "=" as in :func:`~reconciler.quota.keys.same_value`
    D = L = V            InSync            D, no L, no V        Create
    D = V, no L          Adopt             D, no L, V other     Takeover
    D other, V = L       Spec              V = D, L other       Converged
    D = L, V other       Drift             D, L, V all differ   SpecOverDrift
    no D, V = L          Prune             no D, V other than L ChangedByAnother
    no D, L, no V        Gone              no D, no L, V        Unmanaged

The rows exclude each other. ``quota/policy.py`` has the permitted action of each. A write of unknown outcome is no
row: ``intent_settlement.py`` turns it into a record or ends it first, as far as a describe decides.

Under an override the table waits; the override has a row of its own, and one for its end, ``Ended`` (``temporary_limits.py``).
"""

from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from reconciler.quota.entity import Entity
from reconciler.quota.keys import Key, same_value
from reconciler.quota.ownership import Intent, OverrideSet, Owner, Pair, RecordChange
from reconciler.quota.planner.desired_state import Declaration, DesiredState
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.policy import ENDS, Cause, DeclarationEnd, DeletionPolicy


# Two sides are not enough, and a record is compared by value: docs/adr/three-way-comparison.md.
def classify(
    key: Key,
    *,
    desired: float | None,
    applied: float | None,
    live: float | None,
    is_pending: bool = False,
) -> Cause | None:
    """Return the row of the table for a pair; ``None`` if all three values are unset.

    Args:
        key: The quota key; values of integral keys near a whole number equal that number.
        applied: The recorded value that was applied last.
        is_pending: Whether a write of kquota may still take effect.
    """
    if desired is None:
        return _classify_undeclared(key, applied, live, is_pending=is_pending)
    if applied is None:
        if live is None:
            return Cause.CREATE
        return Cause.ADOPT if same_value(key, desired, live) else Cause.TAKEOVER
    if same_value(key, desired, live):
        return Cause.IN_SYNC if same_value(key, desired, applied) else Cause.CONVERGED
    if same_value(key, desired, applied):
        return Cause.DRIFT
    return Cause.SPEC if same_value(key, live, applied) else Cause.SPEC_OVER_DRIFT


def _classify_undeclared(
    key: Key, applied: float | None, live: float | None, *, is_pending: bool
) -> Cause | None:
    if live is None:
        return Cause.GONE if applied is not None or is_pending else None
    if applied is None:
        return Cause.UNMANAGED
    return Cause.PRUNE if same_value(key, live, applied) else Cause.CHANGED_BY_ANOTHER


@lru_cache(maxsize=64)  # the pairs of a document follow one another, and share its owner
def _owner(document: str, deletion_policy: DeletionPolicy | None, since: float) -> Owner:
    return Owner(document=document, deletion_policy=deletion_policy, since=since)


class PairView(Struct, frozen=True, kw_only=True, gc=False):
    """One pair with its three values during the comparison."""

    entity: Entity
    key: Key
    declared: float | None  # the value that a document declares
    applied: float | None  # the recorded value that was applied last
    live: float | None  # the live value
    intent: Intent | None  # a write that may still take effect
    claim: Declaration | None  # the declaration of `declared`
    owner: Owner | None  # the recorded owner, or that of the intent if there is no record
    recorded: Owner | None  # the recorded owner
    is_orphaned: bool  # whether the pair is recorded as orphaned
    now: float  # seconds since the epoch

    @property
    def pair(self) -> Pair:
        """Entity and key."""
        return self.entity, self.key

    @property
    def unsettled(self) -> bool:
        """Whether a write of kquota may still take effect, so that the values are uncertain."""
        return self.intent is not None

    def without_claim(self) -> "PairView":
        """Return the pair as if no document declared it."""
        return replace(self, declared=None, claim=None)

    def new_owner(self) -> Owner | None:
        """Return the owner once the pair has its target value; without a document, the recorded owner."""
        if self.claim is None:
            return self.owner
        since = (
            self.owner.since if self.owner is not None and self.applied is not None else self.now
        )
        return _owner(self.claim.document, self.claim.deletion_policy, since)

    def change(
        self, cause: Cause, after: float | None, note: str = "", *, of_override: bool = False
    ) -> QuotaChange:
        """Return a write of the pair."""
        return QuotaChange(
            entity=self.entity,
            key=self.key,
            before=self.live,
            after=after,
            cause=cause,
            claim=self.claim,
            owner=self.new_owner() if after is not None else self.owner,
            applied=self.applied,
            recorded=self.recorded,
            is_orphaned=self.is_orphaned,
            note=note,
            of_override=of_override,
        )

    @property
    def cause(self) -> Cause | None:
        """The row of the table; ``None`` if all three values are unset."""
        return classify(
            self.key,
            desired=self.declared,
            applied=self.applied,
            live=self.live,
            is_pending=self.unsettled,
        )

    def owner_changed(self) -> bool:
        """Whether the record has another document or deletionPolicy than the claim."""
        return self.claim is not None and (
            self.owner is None
            or self.owner.document != self.claim.document
            or self.owner.deletion_policy is not self.claim.deletion_policy
        )


class Difference(Struct, frozen=True, kw_only=True, gc=False):
    """One pair that is not as it should be, before any policy decides about it."""

    view: PairView  # the pair with its values
    cause: Cause  # the row of the table
    after: float | None = None  # the value that a write sets, None = remove
    end: DeclarationEnd | None = None  # how a recorded pair stopped being declared
    note: str = ""  # additional text for display, or ""
    of_override: bool = False  # for drift: whether the value of an override is not live any more
    # Recorded before its write is sent: that a temporary limit begins, or that the end of a document is carried out.
    record_change: RecordChange | None = None

    @property
    def is_live(self) -> bool:
        """Whether the value is live already, so that at most the records change."""
        return same_value(self.view.key, self.after, self.view.live)

    @property
    def is_over(self) -> bool:
        """Whether a temporary limit has ended and its successor is live: the record below is in charge again."""
        return (
            self.cause is Cause.ENDED
            and self.is_live
            and not isinstance(self.record_change, OverrideSet)
        )

    def change(self, note: str) -> QuotaChange:
        """Return the write."""
        return self.view.change(self.cause, self.after, note, of_override=self.of_override)


def declaration_end(
    view: PairView, desired: DesiredState, *, is_whole: bool
) -> DeclarationEnd | None:
    """Return how a recorded pair stopped being declared, by the deletionPolicy recorded last; ``None`` = it is not recorded.

    Args:
        is_whole: Whether the documents are all that there are; otherwise files were given, and others were not deleted.
    """
    owner, is_orphaned = view.owner, view.is_orphaned
    if owner is None:
        return None
    # Unrelated files may use one name twice: then the document that was read must be of the same entity.
    documents = (
        desired.documents
        if is_whole
        else {claim.document for claim in desired.claims.get(view.entity, ())}
    )
    # An orphan belongs to no document any more: this one has only its name.
    if owner.document in documents and not is_orphaned:
        return DeclarationEnd.KEY_LEFT
    if is_orphaned and owner.deletion_policy is DeletionPolicy.DELETE:
        # Orphaning replaced a removal: a later run does not remove the pair without a request.
        return DeclarationEnd.EXPLICIT_RETAIN
    if not is_whole and not is_orphaned:
        # Files without a project are no complete list: docs/adr/undeclared-documents.md.
        return DeclarationEnd.NOT_READ
    return ENDS[owner.deletion_policy]
