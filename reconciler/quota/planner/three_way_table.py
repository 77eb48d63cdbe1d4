"""The three-way table: which one row three values fall into; and one pair from all three sides, while it is compared.

    D desired, L last applied, V live; "=" as :func:`~reconciler.quota.keys.same_value` says

    D = L = V            InSync            D, no L, no V        Create
    D = V, no L          Adopt             D, no L, V other     Takeover
    D other, V = L       Spec              V = D, L other       Converged
    D = L, V other       Drift             D, L, V all differ   SpecOverDrift
    no D, V = L          Prune             no D, V other than L ChangedByAnother
    no D, L, no V        Gone              no D, no L, V        Unmanaged

The rows exclude each other. What may be done about each stands in ``quota/policy.py``. A write of unknown outcome is no
row: ``intent_settlement.py`` makes it a record or ends it before the table is read.
"""

from dataclasses import dataclass

from reconciler.quota.entity import Entity
from reconciler.quota.keys import Key, same_value
from reconciler.quota.ownership import Intent, Owner, Pair
from reconciler.quota.planner.desired_state import Declaration
from reconciler.quota.policy import Cause


def classify(
    key: Key,
    *,
    desired: float | None,
    applied: float | None,
    live: float | None,
    is_pending: bool = False,
) -> Cause | None:
    """The one row of the table that a pair falls into; ``None`` where there is nothing at all.

    Args:
        key: Which key; integral ones compare near whole numbers.
        desired: What is asked for.
        applied: What the record says was applied last.
        live: What the cluster has.
        is_pending: Whether a write of ours may still land.
    """
    if desired is None:
        return _undeclared(key, applied, live, is_pending=is_pending)
    if applied is None:
        if live is None:
            return Cause.CREATE
        return Cause.ADOPT if same_value(key, desired, live) else Cause.TAKEOVER
    if same_value(key, desired, live):
        return Cause.IN_SYNC if same_value(key, desired, applied) else Cause.CONVERGED
    if same_value(key, desired, applied):
        return Cause.DRIFT
    return Cause.SPEC if same_value(key, live, applied) else Cause.SPEC_OVER_DRIFT


def _undeclared(
    key: Key, applied: float | None, live: float | None, *, is_pending: bool
) -> Cause | None:
    if live is None:
        return Cause.GONE if applied is not None or is_pending else None
    if applied is None:
        return Cause.UNMANAGED
    return Cause.PRUNE if same_value(key, live, applied) else Cause.CHANGED_BY_ANOTHER


@dataclass(frozen=True, slots=True, kw_only=True)
class PairView:
    """One pair.

    Attributes:
        entity: Whose quota.
        key: Which key.
        declared: What a document asks for.
        applied: Value last applied, by the record.
        live: What the cluster has.
        intent: A write that may still land.
        claim: The declaration that ``declared`` comes from.
        owner: Whose it is by record, or by the intent where there is no record.
        now: Seconds since the epoch.
    """

    entity: Entity
    key: Key
    declared: float | None
    applied: float | None
    live: float | None
    intent: Intent | None
    claim: Declaration | None
    owner: Owner | None
    now: float

    @property
    def pair(self) -> Pair:
        """Entity and key."""
        return self.entity, self.key

    @property
    def unsettled(self) -> bool:
        """Whether a write of ours may still land: then nothing is certain."""
        return self.intent is not None

    def new_owner(self) -> Owner:
        """Whose the pair is once it is as asked for; an override alone owns what no document declares."""
        if self.claim is None:
            return self.owner or Owner(document="", since=self.now)
        since = (
            self.owner.since if self.owner is not None and self.applied is not None else self.now
        )
        return Owner(
            document=self.claim.document, deletion_policy=self.claim.deletion_policy, since=since
        )

    def owner_changed(self) -> bool:
        """Whether the record names another document or deletionPolicy than the claim."""
        return self.claim is not None and (
            self.owner is None
            or self.owner.document != self.claim.document
            or self.owner.deletion_policy is not self.claim.deletion_policy
        )
