"""The observation of a cluster: its identity, its quotas from one describe, and the ownership records; never partial."""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from reconciler.base.protocols import Clock
from reconciler.base.redaction import QuietRepr
from reconciler.errors import PlanRefused, UsageError, WrongCluster
from reconciler.quota.entity import Entity, entity_text, sort_key
from reconciler.quota.keys import COLUMN_OF, same_value
from reconciler.quota.overrides import Override
from reconciler.quota.ownership import (
    NOBODY,
    Intent,
    OverrideSet,
    OwnershipRecords,
    Pair,
    RecordChange,
)
from reconciler.quota.planner.desired_state import DesiredState
from reconciler.quota.planner.guards import Guards, override_violations
from reconciler.quota.planner.intent_settlement import Settlement, has_landed, settle_intents
from reconciler.quota.planner.plan import Plan, QuotaChange
from reconciler.quota.policy import Action, Cause, Policy, Rules
from reconciler.quota.precedence import Principal, principals_with_quotas
from reconciler.quota.state import Alteration, Cluster, QuotaState, Result, Unknown
from reconciler.reconcile.options import NewOverride, ReconcileOptions, ReconcilePorts
from reconciler.reconcile.ownership_records import restore


class Observation(QuietRepr, Struct, frozen=True, kw_only=True, dict=True):
    """One cluster at one time."""

    cluster: Cluster | None  # the cluster; None = a snapshot is used instead
    cluster_id: str
    live: QuotaState  # its quotas
    owned: OwnershipRecords  # its ownership records
    at: float  # when, in seconds since the epoch
    snapshot_at: float | None = None  # when the snapshot was taken, in seconds since the epoch
    # Names of the cluster's SCRAM users, if they were requested and returned.
    scram_users: frozenset[str] = frozenset()
    # When, in monotonic seconds. Older than anything if this process did not observe it.
    monotonic_at: float = -math.inf

    @cached_property
    def settlement(self) -> Settlement:
        """The intents that it settles; thousands of overrides and changes refer to it."""
        return settle_intents(self.owned, self.live, now=self.at)

    @property
    def logins(self) -> frozenset[Principal]:
        """The SCRAM users of the cluster."""
        return frozenset(Principal(user=name) for name in self.scram_users)

    @property
    def principals(self) -> frozenset[Principal]:
        """The clients that have a quota of their own or are SCRAM users of the cluster."""
        return principals_with_quotas(self.live) | self.logins

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
    """Check that there is an override of each pair, which a person may end.

    Raises:
        UsageError: There is none, or a document declares it.
    """
    for subject, key in sorted(pairs, key=lambda pair: (sort_key(pair[0]), pair[1])):
        override = owned.overrides.get((subject, key))
        if override is None:
            raise UsageError(
                f"there is no override of {entity_text(subject)}, {key}",
                hint="kquota override list shows all overrides",
            )
        if override.document:
            raise UsageError(
                f"{override.document} declares {entity_text(subject)}, {key} until its end",
                hint="to end it early, delete the document or change its spec.until, and apply",
            )


def check_override_values(changes: Iterable[QuotaChange], guards: Guards) -> None:
    """Check the values of overrides that begin.

    Raises:
        PlanRefused: One is outside its bounds, or like a slip of the unit.
    """
    violations = override_violations(changes, guards)
    if violations:
        raise PlanRefused(
            "; ".join(
                f"{entity_text(violation.entity)}: {violation.message}"
                for violation in violations
                if violation.entity is not None
            ),
            hint="nothing was written; write for example 5Mi, or pass --any-value if the value is meant",
        )


def override_changes(
    options: ReconcileOptions, observation: Observation, desired: DesiredState
) -> tuple[RecordChange, ...]:
    """Return the record changes of overrides that begin and end with this run, after those of settled intents.

    What landed before an override begins belongs to the record below it.

    Raises:
        UsageError: A value cannot be written, or there is no override to end.
        PlanRefused: The scope or the policy in force does not permit a beginning.
    """
    if not options.overrides and not options.ended:
        return ()
    rules = rules_for(options, observation)
    for order in options.overrides:
        live = observation.live.value(order.entity, order.key)
        _check_permitted(order, rules, live)
        _check_values(order, live)
    begun = [
        change
        for order in options.overrides
        for change in _begun(order, observation, desired, is_read=rules.complete)
    ]
    owned = observation.settlement.owned
    check_overrides(owned, options.ended)
    ended = [
        OverrideSet(override=replace(owned.overrides[pair], until=observation.at))
        for pair in sorted(options.ended, key=lambda pair: (sort_key(pair[0]), pair[1]))
    ]
    return (*observation.settlement.changes, *begun, *ended)


def _check_permitted(order: NewOverride, rules: Rules, live: float | None) -> None:
    """Raise PlanRefused if a document with this value would not be written."""
    name = f"{entity_text(order.entity)} {order.key}"
    if not rules.in_scope(order.entity):
        raise PlanRefused(
            f"{name} is outside of the scope, so no override of it may begin",
            hint="nothing was written; spec.scope lists the entities that may be written",
        )
    if rules.permits_override(live) is not Action.WRITE:
        raise PlanRefused(
            f"policy {rules.in_force} writes no document with this value, so no override of {name} may begin",
            hint="nothing was written",
        )


def _check_values(order: NewOverride, live: float | None) -> None:
    """Raise UsageError if Kafka does not enforce the value of an override, or the one that returns after it."""
    if order.value is not None and not _can_be_written(order.value):
        raise UsageError(
            f"{order.key} of {entity_text(order.entity)} cannot be set to {order.value!r}",
            hint="Kafka enforces finite numbers greater than 0; remove the limit or give another value",
        )
    if live is not None and not _can_be_written(live):
        raise UsageError(
            f"{order.key} of {entity_text(order.entity)} is {live!r} now, which Kafka would not accept when it is restored",
            hint="remove it or set a legal value first",
        )


def _begun(
    order: NewOverride, observation: Observation, desired: DesiredState, *, is_read: bool
) -> Iterator[RecordChange]:
    """Yield the beginning of an override; a rollback restores the record from before, too.

    Args:
        is_read: Whether documents were read. Otherwise ``desired`` says nothing about a pair under an override, and what was
            declared when that began is used.
    """
    pair, owned = (order.entity, order.key), observation.settlement.owned
    live = observation.live.value(*pair)
    if (undone := order.rolls_back) is not None:
        restored = restore(
            pair,
            undone.applied,
            undone.recorded,
            is_orphaned=undone.is_orphaned,
            intent=owned.intents.get(pair),
        )
        yield from restored
        owned = owned.with_changes(restored)
    owner, earlier = owned.owner_of(pair), owned.overrides.get(pair)
    is_decided = desired.decides(*pair, "" if owner is None else owner.document)
    declared = desired.value(*pair) if is_decided else None
    if (temporary := desired.temporary.get(pair)) is not None:
        declared = temporary.limits[COLUMN_OF[order.key]]
    if undone is not None and undone.cause is Cause.OVERRIDE:
        if earlier is None:
            if all(same_value(order.key, order.value, value) for value in (declared, live)):
                return  # It ended, and its document applies again.
        elif (
            # Without its document the next run might remove what the end restores.
            (declared is not None or not is_read or owner is None)
            and same_value(order.key, earlier.value, undone.after)
            and _restores(
                earlier, order.value, live, declared if is_read else None, owned.applied_value(pair)
            )
        ):
            yield OverrideSet(override=replace(earlier, until=observation.at))
            return
    if not is_read and earlier is not None:
        declared = earlier.declared
    override = Override(
        entity=order.entity,
        key=order.key,
        value=order.value,
        until=order.until,
        author=order.principal,
        reason=order.reason,
        declared=declared,
        # A declared value that no run applied is no part of what a rollback takes back: guards have not judged it.
        ends_with_document=undone is not None
        and _is_judged(observation.settlement.owned, pair, declared),
    )
    override = override.begun(earlier, live)
    applied = observation.settlement.owned.applied_value(pair)
    if undone is not None and _restores_base(undone, earlier, live, applied):
        override = replace(override, before=undone.base)
    yield OverrideSet(override=override)


def _restores_base(
    undone: QuotaChange, earlier: Override | None, live: float | None, applied: float | None
) -> bool:
    """Whether a rollback restores the value below it, too: not where another writer replaced a temporary value."""
    is_own = earlier is not None and earlier.has_written(live)
    values = undone.after, applied
    return (
        is_own
        or not undone.is_temporary
        or any(same_value(undone.key, live, value) for value in values)
    )


def _restores(
    override: Override,
    value: float | None,
    live: float | None,
    declared: float | None,
    applied: float | None,
) -> bool:
    """Whether the end of an override gives a value, so that nothing need be held in its place."""
    before = override.before if override.has_written(live) else live
    return (
        not override.document
        and same_value(override.key, before if declared is None else declared, value)
        and not override.is_news(declared, applied)
    )


def _is_judged(owned: OwnershipRecords, pair: Pair, declared: float | None) -> bool:
    """Whether a declared value passed the guards: it was applied or sent, or an earlier rollback took it back."""
    values = [owned.applied_value(pair)]
    if (intent := owned.intents.get(pair)) is not None and intent.owner != NOBODY:
        values.append(intent.value)
    if (earlier := owned.overrides.get(pair)) is not None:
        values += [earlier.declared] if earlier.ends_with_document else []
        values += [earlier.value] if earlier.document else []
    return declared is None or any(same_value(pair[1], declared, value) for value in values)


def _can_be_written(value: float) -> bool:
    """Whether Kafka enforces the value; brokers up to 3.4 stored other values, and newer ones still store NaN."""
    return math.isfinite(value) and value > 0


def logins_of(observation: Observation, options: ReconcileOptions) -> frozenset[Principal]:
    """Return the clients that the cluster and the options name, beside those that have a quota of their own."""
    return observation.logins.union(options.known_principals)


def unsettled_results(
    plan: Plan, observation: Observation, now: float
) -> tuple[tuple[Alteration, Result], ...]:
    """Return earlier writes that may still take effect, except those that this plan writes with the same value.

    Sending the same value again is safe, whichever of the two takes effect last.
    """
    planned_values = {change.pair: change.after for change in plan.changes}
    waiting: dict[Entity, list[tuple[str, float | None]]] = {}
    for (subject, key), intent in observation.unsettled(now).items():
        if (subject, key) in planned_values and planned_values[subject, key] == intent.value:
            continue
        waiting.setdefault(subject, []).append((str(key), intent.value))
    unknown = Unknown(reason="an earlier write may still take effect")
    return tuple((Alteration(subject, tuple(pairs)), unknown) for subject, pairs in waiting.items())
