"""The first word: who answers, what is live, what we own. One look, one describe, nothing partial."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from reconciler.errors import UsageError, WrongCluster
from reconciler.quota.cluster import Cluster
from reconciler.quota.entity import sort_key
from reconciler.quota.entity_forms import entity_text
from reconciler.quota.keys import COLUMN_OF, same_value
from reconciler.quota.ownership import (
    Intent,
    Override,
    OverrideSet,
    OwnershipRecords,
    Pair,
    RecordChange,
)
from reconciler.quota.planner.desired_state import DesiredState
from reconciler.quota.planner.impact import known_from
from reconciler.quota.planner.intent_settlement import (
    Settlement,
    has_landed,
    settle_intents,
)
from reconciler.quota.policy import Rules
from reconciler.quota.precedence import Principal
from reconciler.quota.state import NO_LIMITS, QuotaState
from reconciler.reconcile.options import (
    NewOverride,
    ReconcileOptions,
    ReconcilePorts,
)


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
        scram_users: Names of the cluster's SCRAM users, as far as they were asked for and are known.
    """

    cluster: Cluster | None
    cluster_id: str
    live: QuotaState = field(repr=False)
    owned: OwnershipRecords = field(repr=False)
    at: float
    snapshot_at: float | None = None
    scram_users: frozenset[str] = frozenset()

    @property
    def principals(self) -> frozenset[Principal]:
        """The clients that the cluster itself names, in its quotas or as SCRAM users."""
        return known_from(self.live) | {Principal(user=name) for name in self.scram_users}

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


async def observe(ports: ReconcilePorts, orders: ReconcileOptions) -> Observation:
    """The cluster and our records of it, as they are now.

    A run that may write locks the records before it describes the cluster, so that no other run writes in between. The
    records go by the cluster's id: where no id is expected, such a run asks for it first, which is one more round trip.

    Raises:
        WrongCluster: Another cluster answers than the expected one.
        InventoryError: The records cannot be read, or another process is writing them.
        ClientError: The cluster cannot be asked; never an empty state instead.
    """
    cluster_id = orders.expected_cluster_id
    if not cluster_id and ports.locks_records:
        cluster_id = (await ports.store.cluster()).id
    owned = await ports.inventory.load(cluster_id) if cluster_id else None
    ports.progress("describe", 0, 1)
    at = ports.clock.now()
    description = await ports.store.observe(scram_users=orders.assess)
    ports.progress("describe", 1, 1)
    cluster = description.cluster
    check_cluster(cluster.id, cluster_id)
    return Observation(
        cluster=cluster,
        cluster_id=cluster.id,
        live=description.quotas,
        owned=await ports.inventory.load(cluster.id) if owned is None else owned,
        at=at,
        scram_users=description.scram_users,
    )


def check_cluster(actual: str, expected: str | None) -> None:
    """Nothing, if the right cluster answers.

    Raises:
        WrongCluster: It is another one.
    """
    if expected and actual != expected:
        raise WrongCluster(
            f"the cluster that answers is {actual!r}, not {expected!r}",
            expected=expected,
            actual=actual,
            hint="check bootstrap.servers and expectedClusterId; nothing was written",
        )


def rules_for(orders: ReconcileOptions, observation: Observation) -> Rules:
    """The rules for this very cluster: Sync confirmed or not, removals known or not."""
    confirmed = orders.rules.sync_confirmed or orders.confirm_sync == observation.cluster_id
    are_removals_known = orders.rules.removals_known and observation.owned.is_known
    return replace(orders.rules, sync_confirmed=confirmed, removals_known=are_removals_known)


def override_changes(
    orders: ReconcileOptions, observation: Observation, desired: DesiredState
) -> tuple[RecordChange, ...]:
    """The overrides that begin and end with this run, complete with what they replace.

    Raises:
        UsageError: A value cannot be written, or there is no override to end.
    """
    begun = [_begun(order, observation, desired) for order in orders.overrides]
    missing = sorted(
        entity_text(pair[0]) for pair in orders.ended - observation.owned.overrides.keys()
    )
    if missing:
        raise UsageError(f"there is no override of {missing[0]} to end")
    ended = [
        OverrideSet(override=replace(observation.owned.overrides[pair], until=observation.at))
        for pair in sorted(orders.ended, key=lambda pair: (sort_key(pair[0]), pair[1]))
    ]
    return (*begun, *ended)


def _begun(order: NewOverride, observation: Observation, desired: DesiredState) -> OverrideSet:
    if order.value is not None and not _can_be_written(order.value):
        raise UsageError(
            f"{order.key} of {entity_text(order.entity)} cannot be set to {order.value!r}",
            hint="Kafka enforces finite numbers greater than 0; remove the limit or give another value",
        )
    live = observation.live.value(order.entity, order.key)
    if live is not None and not _can_be_written(live):
        raise UsageError(
            f"{order.key} of {entity_text(order.entity)} is {live!r} now, which could not be written back",
            hint="remove it or set a legal value first",
        )
    earlier_override = observation.owned.overrides.get((order.entity, order.key))
    # An override of an override still replaces what stood there before the first one.
    chained = earlier_override is not None and same_value(order.key, earlier_override.value, live)
    return OverrideSet(
        override=Override(
            entity=order.entity,
            key=order.key,
            value=order.value,
            until=order.until,
            author=order.principal,
            reason=order.reason,
            before=earlier_override.before if chained and earlier_override is not None else live,
            declared=desired.limits.get(order.entity, NO_LIMITS)[COLUMN_OF[order.key]],
            ends_with_document=order.ends_with_document,
        )
    )


def _can_be_written(value: float) -> bool:
    """Whether Kafka enforces the value; brokers up to 3.4 stored others, and NaN is stored to this day."""
    return math.isfinite(value) and value > 0
