"""Overrides with an operator: written to its records, applied by its next reconciliation. Kafka is not queried here.

The value that an override replaces has to be known when it begins, because it is restored at the end. It is the one that
the records have as applied; so only pairs that the operator applied (or that already have an override) can be overridden
here. Nothing is read from statuses, which tenants may have written.
"""

import secrets
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from reconciler.base.protocols import Clock
from reconciler.errors import ConfigError, NotFound, UsageError
from reconciler.kube.api.client import KubernetesApi
from reconciler.kube.api.custom_resources import REQUESTED_AT, parsed, time_text
from reconciler.kube.api.resource_paths import QUOTA_CLUSTERS
from reconciler.kube.configuration.cluster_references import read_cluster
from reconciler.kube.records import record_store
from reconciler.kube.records.stored_records import StoredRecords
from reconciler.quota.entity import entity_text
from reconciler.quota.overrides import Override
from reconciler.quota.ownership import OverrideSet, Pair
from reconciler.quota.planner.guards import Guards
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.policy import Cause
from reconciler.reconcile import NewOverride
from reconciler.reconcile.observation import check_override_values, check_overrides

POLL_SECONDS: Final = 0.5


class OverrideLedger(Struct, frozen=True, kw_only=True):
    """The location of the overrides of one Kafka cluster."""

    api: KubernetesApi  # client of the API server
    namespace: str  # the operator's own
    cluster: str  # name of the QuotaCluster
    cluster_id: str  # the Kafka cluster id that the operator pinned
    guards: Guards  # of the QuotaCluster; overrides are judged by their values


async def ledger(api: KubernetesApi, *, namespace: str, cluster: str) -> OverrideLedger:
    """Return the override ledger of a QuotaCluster.

    Raises:
        UsageError: There is no such QuotaCluster.
        ConfigError: The operator has never reached its Kafka cluster.
    """
    try:
        obj = parsed(await api.get(QUOTA_CLUSTERS, None, cluster))
    except NotFound:
        raise UsageError(
            f"there is no QuotaCluster {cluster}", hint="kubectl get quotaclusters lists them"
        ) from None
    cluster_id = obj.spec.get("expectedClusterId")
    if not isinstance(cluster_id, str):
        # Its status also names the cluster, but others may write it.
        cluster_ids = await record_store.cluster_ids_of(api, namespace, cluster)
        if len(cluster_ids) != 1:
            raise ConfigError(
                f"QuotaCluster {cluster} has the records of {len(cluster_ids)} Kafka clusters in namespace {namespace}",
                hint="without records no operator has reached its brokers, and its status says why; of several, name one in"
                " spec.expectedClusterId",
            )
        cluster_id = min(cluster_ids)
    guards = read_cluster(obj, allow_references=True).guards
    return OverrideLedger(
        api=api, namespace=namespace, cluster=cluster, cluster_id=cluster_id, guards=guards
    )


async def overrides(ledger: OverrideLedger) -> Mapping[Pair, Override]:
    """Return active overrides, and ended ones whose value is not restored yet.

    Raises:
        InventoryError: The ledger cannot be read.
        KubernetesError: The request failed.
    """
    stored = await record_store.read(ledger.api, ledger.namespace, ledger.cluster_id)
    return stored.owned.overrides


async def begin(
    ledger: OverrideLedger, begun: Sequence[NewOverride], *, any_value: bool = False
) -> Sequence[Override]:
    """Record overrides; they take effect with the operator's next reconciliation.

    Args:
        begun: The overrides.
        any_value: Whether guards do not judge the values.

    Raises:
        PlanRefused: A value is outside of its bounds, or like a slip of the unit.
        UsageError: The operator applied no value of a pair, so the replaced one is unknown here.
        InventoryError: The ledger cannot be read.
        KubernetesError: The request failed.
    """
    if not any_value:
        changes = (
            QuotaChange(
                entity=new.entity, key=new.key, before=None, after=new.value, cause=Cause.OVERRIDE
            )
            for new in begun
        )
        check_override_values(changes, ledger.guards)

    def work(stored: StoredRecords) -> StoredRecords:
        return _with_overrides(stored, [_override(stored, new) for new in begun])

    stored = await record_store.change(ledger.api, ledger.namespace, ledger.cluster_id, work)
    return [stored.owned.overrides[new.entity, new.key] for new in begun]


async def end(ledger: OverrideLedger, pairs: frozenset[Pair], *, now: float) -> Sequence[Override]:
    """End overrides now; the replaced values are restored by the operator's next reconciliation.

    Raises:
        UsageError: There is no such override.
        InventoryError: The ledger cannot be read.
        KubernetesError: The request failed.
    """

    def ended(stored: StoredRecords) -> list[Override]:
        recorded = stored.owned.overrides.items()
        return [
            replace(each, until=min(each.until, now)) for pair, each in recorded if pair in pairs
        ]

    def work(stored: StoredRecords) -> StoredRecords:
        check_overrides(stored.owned, pairs)
        return _with_overrides(stored, ended(stored))

    place = ledger.api, ledger.namespace, ledger.cluster_id
    return ended(await record_store.change(*place, work))


async def wait_until_applied(ledger: OverrideLedger, *, seconds: float, clock: Clock) -> bool:
    """Request a reconciliation from the operator; return whether one that began afterwards ended in time.

    Raises:
        KubernetesError: The QuotaCluster may not be patched, or cannot be read.
    """
    # The time is for people; the rest distinguishes two requests of the same second.
    value = f"{time_text(clock.now())}-{secrets.token_hex(3)}"
    patch = {"metadata": {"annotations": {REQUESTED_AT: value}}}
    obj = parsed(await ledger.api.patch_merge(QUOTA_CLUSTERS, None, ledger.cluster, patch))
    earlier, deadline = obj.status.get("lastHandledReconcileAt"), clock.monotonic() + seconds
    while clock.monotonic() <= deadline:
        obj = parsed(await ledger.api.get(QUOTA_CLUSTERS, None, ledger.cluster))
        handled = obj.status.get("lastHandledReconcileAt")
        # A later request replaces this one: the reconciliation that handles it begins after both.
        if handled == value or (handled != earlier and handled == obj.requested_at):
            return True
        await clock.sleep(POLL_SECONDS)
    return False


async def differences(
    ledger: OverrideLedger, changed: Sequence[Override], *, recorded_at: float, now: float
) -> Sequence[str]:
    """Return a sentence for each override that has begun or ended, but that the operator did not carry out by its records.

    A reconciliation that was handled may have failed, have been refused, or may write nothing (``policy: Observe``).

    Args:
        ledger: Where the overrides are.
        changed: Overrides that have begun or ended; those whose time ended meanwhile are not judged.
        recorded_at: When they were recorded, in seconds since the epoch.
        now: Seconds since the epoch.
    """
    recorded = await overrides(ledger)
    sentences: list[str] = []
    for override in changed:
        present = recorded.get(override.pair)
        has_begun = now < override.until
        is_carried_out = (present is not None and present.is_written) if has_begun else not present
        if not is_carried_out and not recorded_at < override.until <= now:
            pair = f"{override.key} of {entity_text(override.entity)}"
            sentences.append(
                f"the override of {pair} was not {'applied' if has_begun else 'ended'}"
            )
    return sentences


def _with_overrides(stored: StoredRecords, new_overrides: Sequence[Override]) -> StoredRecords:
    changes = [OverrideSet(override=override) for override in new_overrides]
    return replace(stored, owned=stored.owned.with_changes(changes))


def _override(stored: StoredRecords, new: NewOverride) -> Override:
    pair = new.entity, new.key
    previous = stored.owned.overrides.get(pair)
    live = stored.owned.applied_value(pair) if previous is None else previous.applied
    if live is None and previous is None:
        raise UsageError(
            f"the operator applied no {new.key} of {entity_text(new.entity)}",
            hint="declare it and wait until it is applied, or run kquota override against the brokers themselves",
        )
    override = Override(
        entity=new.entity,
        key=new.key,
        value=new.value,
        until=new.until,
        author=new.principal,
        reason=new.reason,
        declared=stored.owned.applied_value(pair),
    )
    return override.begun(previous, live)
