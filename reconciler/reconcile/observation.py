"""The observation of a cluster: its identity, its quotas from one describe, and the ownership records; never partial."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from reconciler.base.protocols import Clock
from reconciler.errors import UsageError, WrongCluster
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
from reconciler.quota.planner.impact import principals_with_quotas
from reconciler.quota.planner.intent_settlement import Settlement, has_landed, settle_intents
from reconciler.quota.policy import Policy, Rules
from reconciler.quota.precedence import Principal
from reconciler.quota.state import NO_LIMITS, Cluster, QuotaState
from reconciler.reconcile.options import NewOverride, ReconcileOptions, ReconcilePorts


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One cluster at one time."""

    cluster: Cluster | None  # the cluster; None = a snapshot is used instead
    cluster_id: str
    live: QuotaState = field(repr=False)  # its quotas
    owned: OwnershipRecords = field(repr=False)  # its ownership records
    at: float  # when, in seconds since the epoch
    snapshot_at: float | None = None  # when the snapshot was taken, in seconds since the epoch
    # Names of the cluster's SCRAM users, if they were requested and returned.
    scram_users: frozenset[str] = frozenset()
    # When, in monotonic seconds. Older than anything if this process did not observe it.
    monotonic_at: float = -math.inf
    # The intents that it settles.
    settlement: Settlement = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Settle the intents once: thousands of overrides and changes refer to the settlement."""
        settlement = settle_intents(self.owned, self.live, now=self.at)
        object.__setattr__(self, "settlement", settlement)

    @property
    def principals(self) -> frozenset[Principal]:
        """The clients that have a quota of their own or are SCRAM users of the cluster."""
        return principals_with_quotas(self.live) | {
            Principal(user=name) for name in self.scram_users
        }

    def age(self, clock: Clock) -> float:
        """Return its age in seconds, the larger of two: the wall clock may be set back, the monotonic one stops in a suspended machine."""
        return max(clock.now() - self.at, clock.monotonic() - self.monotonic_at)

    def unsettled(self, now: float) -> Mapping[Pair, Intent]:
        """Return writes of unknown outcome that may still take effect; values that are already live are excluded."""
        return {
            pair: intent
            for pair, intent in self.owned.intents.items()
            if intent.may_still_land(now) and not has_landed(pair, intent, self.live)
        }


async def observe(ports: ReconcilePorts, options: ReconcileOptions) -> Observation:
    """Describe the cluster and load its records.

    A run that may write locks the records before it describes the cluster, so that no other run writes in between. The
    records are found by cluster id: without an expected id, such a run requests it first, which is one more round trip.

    Raises:
        WrongCluster: The cluster that answered is not the expected one.
        InventoryError: The records cannot be read, or another process is writing them.
        ClientError: The cluster cannot be described; the result is never an empty state instead.
    """
    cluster_id = options.expected_cluster_id
    if not cluster_id and ports.locks_records:
        cluster_id = (await ports.store.cluster()).id
    owned = await ports.inventory.load(cluster_id) if cluster_id else None
    ports.progress("describe", 0, 1)
    at, monotonic_at = ports.clock.now(), ports.clock.monotonic()
    description = await ports.store.observe(scram_users=options.assess)
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
        monotonic_at=monotonic_at,
    )


def check_cluster(actual: str, expected: str | None) -> None:
    """Check the cluster id against the expected one, if any.

    Raises:
        WrongCluster: The ids differ.
    """
    if expected and actual != expected:
        raise WrongCluster(
            f"the cluster that answers is {actual!r}, not {expected!r}",
            expected=expected,
            actual=actual,
            hint="check bootstrap.servers and expectedClusterId; nothing was written",
        )


def rules_for(options: ReconcileOptions, observation: Observation) -> Rules:
    """Return the rules for this cluster: whether Sync is confirmed, and whether removals can be determined.

    Sync that this run confirms makes the files that were given all documents. A standing confirmation in a project file
    does not: no person says of these files that they are all.
    """
    rules = options.rules
    is_confirmed_now = options.confirm_sync == observation.cluster_id
    return replace(
        rules,
        sync_confirmed=rules.sync_confirmed or is_confirmed_now,
        configured=rules.configured or (is_confirmed_now and rules.policy is Policy.SYNC),
        removals_known=rules.removals_known and observation.settlement.owned.is_known,
    )


def check_overrides(owned: OwnershipRecords, pairs: Collection[Pair]) -> None:
    """Check that there is an override of each pair.

    Raises:
        UsageError: There is none.
    """
    for subject, key in sorted(pairs, key=lambda pair: (sort_key(pair[0]), pair[1])):
        if (subject, key) not in owned.overrides:
            raise UsageError(
                f"there is no override of {entity_text(subject)}, {key}",
                hint="kquota override list shows all overrides",
            )


def begin_override(override: Override, owned: OwnershipRecords, live: float | None) -> Override:
    """Return a new override with what it replaces, which its end restores.

    An override of an override still restores the value before the first one, and guards compare with that value.

    Args:
        override: The override, with the value that is declared now.
        owned: The records.
        live: The live value.
    """
    pair, key = override.pair, override.key
    earlier = owned.overrides.get(pair)
    if earlier is None:
        return replace(override, before=live, before_owner=owned.owner_of(pair, live))
    values = (earlier.value, *earlier.earlier_values)
    is_chained = any(same_value(key, live, value) for value in values)
    # A run that does not know the new override yet may still write the value of the last one.
    written_values = {earlier.value, owned.applied_value(pair)}
    if (intent := owned.intents.get(pair)) is not None:
        written_values.add(intent.value)
    return replace(
        override,
        before=earlier.before if is_chained else live,
        declared=earlier.declared
        if is_chained and not override.ends_with_document
        else override.declared,
        before_owner=earlier.before_owner if is_chained else owned.owner_of(pair, live),
        earlier_values=tuple(
            value
            for value in dict.fromkeys(values)
            if value in written_values and value != override.value
        ),
    )


def override_changes(
    options: ReconcileOptions, observation: Observation, desired: DesiredState
) -> tuple[RecordChange, ...]:
    """Return the overrides that begin and end with this run, with the values that they replace.

    Raises:
        UsageError: A value cannot be written, or there is no override to end.
    """
    begun = [_begun(order, observation, desired) for order in options.overrides]
    check_overrides(observation.owned, options.ended)
    ended = [
        OverrideSet(override=replace(observation.owned.overrides[pair], until=observation.at))
        for pair in sorted(options.ended, key=lambda pair: (sort_key(pair[0]), pair[1]))
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
            f"{order.key} of {entity_text(order.entity)} is {live!r} now, which Kafka would not accept when it is restored",
            hint="remove it or set a legal value first",
        )
    override = Override(
        entity=order.entity,
        key=order.key,
        value=order.value,
        until=order.until,
        author=order.principal,
        reason=order.reason,
        declared=desired.limits.get(order.entity, NO_LIMITS)[COLUMN_OF[order.key]],
        ends_with_document=order.ends_with_document,
    )
    return OverrideSet(override=begin_override(override, observation.settlement.owned, live))


def _can_be_written(value: float) -> bool:
    """Whether Kafka enforces the value; brokers up to 3.4 stored other values, and newer ones still store NaN."""
    return math.isfinite(value) and value > 0
