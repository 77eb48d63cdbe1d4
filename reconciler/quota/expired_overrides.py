"""Overrides whose time is over and whose value is still live: what has to come back, and who set the value."""

from collections.abc import Collection
from dataclasses import dataclass

from reconciler.quota.change import Plan
from reconciler.quota.owned import Override, Owned, Pair
from reconciler.quota.policy import Cause


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiredOverride:
    """One override that has ended and whose value is still live.

    Attributes:
        override: The override as it is on record.
        expected: What has to be live now; ``None`` = not set.
        live: What is live; ``None`` = not set.
        document: ``namespace/name`` of the document that declares the pair; "" = no document.
    """

    override: Override
    expected: float | None
    live: float | None
    document: str

    @property
    def pair(self) -> Pair:
        """Entity and key."""
        return self.override.entity, self.override.key


def expired_overrides(
    plan: Plan, owned: Owned, *, reverted: Collection[Pair] = ()
) -> tuple[ExpiredOverride, ...]:
    """The expired overrides that a plan reports or wants to revert, in plan order; without ignored pairs.

    Args:
        plan: The comparison of one observation.
        owned: The records that the plan was made from.
        reverted: Pairs that were written since.
    """
    ended = Cause.OVERRIDE_EXPIRED
    reported = [
        (one, one.live, owned.overrides[one.entity, one.key].before if one.desired is None else one.desired)
        for one in plan.found(ended)
        if not one.ignored
    ]  # fmt: skip
    planned = [(one, one.before, one.after) for one in plan.changes if one.cause is ended]
    return tuple(
        ExpiredOverride(
            override=owned.overrides[pair],
            expected=expected,
            live=live,
            document="" if one.owner is None else one.owner.document,
        )
        for one, live, expected in (*reported, *planned)
        if (pair := (one.entity, one.key)) not in reverted
    )
