"""One pair from all three sides, while it is compared: what was asked for, applied, intended and found."""

from dataclasses import dataclass

from reconciler.quota.entity import Entity
from reconciler.quota.keys import Key
from reconciler.quota.ownership import Intent, Owner, Pair
from reconciler.quota.planner.desired_state import Declaration


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
