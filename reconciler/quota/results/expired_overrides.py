"""Overrides that have expired and whose value is still live, with the value to restore."""

from collections.abc import Collection
from dataclasses import dataclass

from reconciler.quota.ownership import Override, Owner, OwnershipRecords, Pair
from reconciler.quota.planner.plan import Plan
from reconciler.quota.policy import Cause


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiredOverride:
    """One override that has ended and whose value is still live."""

    override: Override  # the recorded override
    expected: float | None  # the value that should be live now; None = not set
    live: float | None  # the live value; None = not set
    document: str  # `namespace/name` of the owner of the pair; "" = no document

    @property
    def pair(self) -> Pair:
        """Entity and key."""
        return self.override.entity, self.override.key


def expired_overrides(
    plan: Plan, owned: OwnershipRecords, *, reverted: Collection[Pair] = ()
) -> tuple[ExpiredOverride, ...]:
    """Return the expired overrides that a plan reports or reverts, in plan order; without ignored pairs.

    Args:
        plan: The comparison of one observation.
        owned: The records that the plan was computed from.
        reverted: Pairs that were written since.
    """
    ended, overrides = Cause.OVERRIDE_EXPIRED, owned.overrides
    rows: list[tuple[Pair, float | None, float | None, Owner | None]] = []
    for finding in plan.findings_for(ended):
        pair = finding.entity, finding.key
        expected = overrides[pair].before if finding.desired is None else finding.desired
        if not finding.ignored:
            rows.append((pair, expected, finding.live, finding.owner))
    for change in plan.changes:
        pair = change.entity, change.key
        if change.cause is ended and pair not in reverted:
            rows.append((pair, change.after, change.before, change.owner))
    return tuple(
        ExpiredOverride(
            override=overrides[pair],
            expected=expected,
            live=live,
            document="" if owner is None else owner.document,
        )
        for pair, expected, live, owner in rows
    )
