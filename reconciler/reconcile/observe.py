"""The first word: who answers, what is live, what we own. One look, one describe, nothing partial."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from reconciler.errors import UsageError, WrongCluster
from reconciler.ports import Cluster
from reconciler.quota.desired import Desired
from reconciler.quota.entity import sort_key
from reconciler.quota.filters import ALL
from reconciler.quota.keys import COLUMN_OF, same_value
from reconciler.quota.owned import Intent, Override, OverrideSet, Owned, Pair, RecordChange
from reconciler.quota.policy import Rules
from reconciler.quota.settlement import Settlement, has_landed, settle_intents
from reconciler.quota.state import NO_LIMITS, State
from reconciler.reconcile.orders import Orders, OverrideOrder, Ports
from reconciler.render.names import entity_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One cluster at one moment.

    Attributes:
        cluster: Who answered; ``None`` = a snapshot stands for it.
        cluster_id: Its id.
        live: What it has.
        owned: Our records of it.
        at: When, in seconds since the epoch.
        snapshot_at: When the snapshot was taken, in seconds since the epoch.
    """

    cluster: Cluster | None
    cluster_id: str
    live: State = field(repr=False)
    owned: Owned = field(repr=False)
    at: float
    snapshot_at: float | None = None

    def unsettled(self, now: float) -> Mapping[Pair, Intent]:
        """Writes without a known outcome that may still land; a value that is there already has landed."""
        return {
            pair: intent
            for pair, intent in self.owned.intents.items()
            if intent.may_still_land(now) and not has_landed(pair, intent, self.live)
        }

    @property
    def settlement(self) -> Settlement:
        """What this look decides about writes of unknown outcome."""
        return settle_intents(self.owned, self.live, now=self.at)


async def observe(ports: Ports, orders: Orders) -> Observation:
    """The cluster and our records of it, as they are now.

    Raises:
        WrongCluster: Another cluster answers than the expected one.
        InventoryError: The records cannot be read, or somebody else is writing them.
        ClientError: The cluster cannot be asked; never an empty state instead.
    """
    cluster = await ports.store.cluster()
    check_cluster(cluster.id, orders.expected_cluster_id)
    owned = await ports.inventory.load(cluster.id)
    ports.progress("describe", 0, 1)
    at = ports.clock.now()
    live = await ports.store.describe(ALL)
    ports.progress("describe", 1, 1)
    return Observation(cluster=cluster, cluster_id=cluster.id, live=live, owned=owned, at=at)


def check_cluster(found: str, expected: str | None) -> None:
    """Nothing, if the right cluster answers.

    Raises:
        WrongCluster: It is another one.
    """
    if expected and found != expected:
        raise WrongCluster(
            f"the cluster that answers is {found!r}, not {expected!r}",
            expected=expected,
            found=found,
            hint="check bootstrap.servers and expectedClusterId; nothing was written",
        )


def rules_for(orders: Orders, seen: Observation) -> Rules:
    """The rules for this very cluster: Sync confirmed or not, removals known or not."""
    confirmed = orders.rules.sync_confirmed or orders.confirm_sync == seen.cluster_id
    known = orders.rules.removals_known and seen.owned.known
    return replace(orders.rules, sync_confirmed=confirmed, removals_known=known)


def override_changes(
    orders: Orders, seen: Observation, desired: Desired
) -> tuple[RecordChange, ...]:
    """The overrides that begin and end with this run, complete with what they replace.

    Raises:
        UsageError: A value cannot be written, or there is no override to end.
    """
    begun = [_begun(one, seen, desired) for one in orders.overrides]
    missing = sorted(entity_text(pair[0]) for pair in orders.ended - seen.owned.overrides.keys())
    if missing:
        raise UsageError(f"there is no override of {missing[0]} to end")
    ended = [
        OverrideSet(override=replace(seen.owned.overrides[pair], until=seen.at))
        for pair in sorted(orders.ended, key=lambda one: (sort_key(one[0]), one[1]))
    ]
    return (*begun, *ended)


def _begun(one: OverrideOrder, seen: Observation, desired: Desired) -> OverrideSet:
    if one.value is not None and not _can_be_written(one.value):
        raise UsageError(
            f"{one.key} of {entity_text(one.entity)} cannot be set to {one.value!r}",
            hint="Kafka enforces finite numbers greater than 0; remove the limit or give another value",
        )
    live = seen.live.value(one.entity, one.key)
    if live is not None and not _can_be_written(live):
        raise UsageError(
            f"{one.key} of {entity_text(one.entity)} is {live!r} now, which could not be written back",
            hint="remove it or set a legal value first",
        )
    earlier = seen.owned.overrides.get((one.entity, one.key))
    # An override of an override still replaces what stood there before the first one.
    chained = earlier is not None and same_value(one.key, earlier.value, live)
    return OverrideSet(
        override=Override(
            entity=one.entity,
            key=one.key,
            value=one.value,
            until=one.until,
            who=one.who,
            reason=one.reason,
            before=earlier.before if chained and earlier is not None else live,
            declared=desired.limits.get(one.entity, NO_LIMITS)[COLUMN_OF[one.key]],
            ends_with_document=one.ends_with_document,
        )
    )


def _can_be_written(value: float) -> bool:
    """Whether Kafka enforces the value; brokers up to 3.4 stored others, and NaN is stored to this day."""
    return math.isfinite(value) and value > 0
