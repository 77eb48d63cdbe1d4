"""Overrides with an operator: written to its records, applied by its next reconciliation. Kafka is not queried here.

The value that an override replaces has to be known when it begins, because it is restored at the end. It is read from
a document's status; so only pairs that a document declares (or that already have an override) can be overridden here.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from reconciler.base.escaping import escaped
from reconciler.base.protocols import Clock
from reconciler.errors import ConfigError, KquotaError, NotFound, UsageError
from reconciler.kube.api import reconcile_request
from reconciler.kube.api.client import KubernetesApi
from reconciler.kube.api.custom_resources import Resource, condition_of, parsed
from reconciler.kube.api.resource_paths import CLIENT_QUOTAS, QUOTA_CLUSTERS
from reconciler.kube.configuration.cluster_references import read_cluster
from reconciler.kube.records import record_store
from reconciler.kube.records.stored_records import StoredRecords
from reconciler.kube.watch.projection import projections
from reconciler.quota.entity import Entity
from reconciler.quota.entity_forms import entity_text
from reconciler.quota.keys import RULES, Key, same_value
from reconciler.quota.overrides import Override
from reconciler.quota.ownership import OverrideSet, Pair
from reconciler.quota.planner.guards import Guards
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.policy import Cause
from reconciler.reconcile.observation import check_override_values, check_overrides
from reconciler.render.units import limit

_WITHOUT_EFFECT: Final = frozenset({"Conflict", "Frozen"})
"""Causes in a status of documents whose declared value is not in effect."""


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
    cluster_id = obj.spec.get("expectedClusterId") or obj.status.get("clusterId")
    if not isinstance(cluster_id, str):
        raise ConfigError(
            f"QuotaCluster {cluster} has no cluster id yet: no operator has reached its brokers",
            hint="kquota operator check says why",
        )
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


class OverrideRequest(Struct, frozen=True, kw_only=True):
    """A requested override."""

    entity: Entity
    values: Mapping[Key, float | None]  # by key; None = not set
    until: float  # seconds since the epoch
    author: str  # who requests it
    reason: str  # Why
    any_value: bool = False  # whether guards do not judge the values


async def begin(ledger: OverrideLedger, request: OverrideRequest) -> Sequence[Override]:
    """Record overrides; they take effect with the operator's next reconciliation.

    Raises:
        PlanRefused: A value is outside of its bounds, or like a slip of the unit.
        UsageError: A pair is declared by no document, so the replaced value is unknown here.
        InventoryError: The ledger cannot be read.
        KubernetesError: The request failed.
    """
    if not request.any_value:
        check_override_values(
            (
                QuotaChange(
                    entity=request.entity, key=key, before=None, after=value, cause=Cause.OVERRIDE
                )
                for key, value in request.values.items()
            ),
            ledger.guards,
        )
    documents = await _documents(ledger, request.entity)
    overrides_begun: list[Override] = []

    def work(stored: StoredRecords) -> StoredRecords:
        overrides_begun[:] = [
            _build_override(stored, request, key, value, documents)
            for key, value in request.values.items()
        ]
        return _with_overrides(stored, overrides_begun)

    _ = await record_store.change(ledger.api, ledger.namespace, ledger.cluster_id, work)
    return overrides_begun


async def end(ledger: OverrideLedger, pairs: frozenset[Pair], *, now: float) -> Sequence[Override]:
    """End overrides now; the replaced values are restored by the operator's next reconciliation.

    Raises:
        UsageError: There is no such override.
        InventoryError: The ledger cannot be read.
        KubernetesError: The request failed.
    """
    overrides_ended: list[Override] = []

    def work(stored: StoredRecords) -> StoredRecords:
        check_overrides(stored.owned, pairs)
        overrides_ended[:] = [
            replace(override, until=min(override.until, now))
            for pair, override in stored.owned.overrides.items()
            if pair in pairs
        ]
        return _with_overrides(stored, overrides_ended)

    _ = await record_store.change(ledger.api, ledger.namespace, ledger.cluster_id, work)
    return overrides_ended


async def wait_until_applied(ledger: OverrideLedger, *, seconds: float, clock: Clock) -> bool:
    """Request a reconciliation from the operator; return whether it ended in time.

    Raises:
        KubernetesError: The QuotaCluster may not be patched, or cannot be read.
    """
    place = (ledger.api, QUOTA_CLUSTERS, None, ledger.cluster)
    value = await reconcile_request.request(*place, clock=clock)
    return (await reconcile_request.wait(*place, value=value, seconds=seconds, clock=clock)).handled


async def differences(
    ledger: OverrideLedger, changed: Sequence[Override], *, recorded_at: float, now: float
) -> Sequence[str]:
    """Return a sentence for each override that has begun or ended, but whose value is not live by the statuses.

    A reconciliation that was handled may have failed, have been refused, or may write nothing (``policy: Observe``).

    Args:
        ledger: Where the overrides are.
        changed: Overrides that have begun or ended; pairs that no document declares are not judged, nor overrides
            whose time ended meanwhile.
        recorded_at: When they were recorded, in seconds since the epoch.
        now: Seconds since the epoch.
    """
    sentences: list[str] = []
    for override in changed:
        documents = _declaring(await _documents(ledger, override.entity), override.key)
        if not documents or recorded_at < override.until <= now:
            continue
        item = _item(documents, override.key)
        live, declared = _number(item.get("live")), _number(item.get("desired"))
        if now < override.until:
            expected_values = [override.value]
        elif item.get("cause") == "Frozen":
            expected_values = [override.before]
        else:  # If a guard refuses the declared value, the replaced one is restored.
            expected_values = [declared, override.before]
        if not any(same_value(override.key, live, expected) for expected in expected_values):
            pair = f"{override.key} of {entity_text(override.entity)}"
            reason = item.get("message") or condition_of(documents[0].status, "Ready").get(
                "message"
            )
            sentences.append(
                f"{pair} is {limit(override.key, live)}, not {limit(override.key, expected_values[0])}"
                + (f": {escaped(str(reason))}" if reason else "")
            )
    return sentences


async def _documents(ledger: OverrideLedger, entity: Entity) -> Sequence[Resource]:
    """Return the documents of an entity as this cluster sees them."""
    cluster = parsed(await ledger.api.get(QUOTA_CLUSTERS, None, ledger.cluster))
    listing = await ledger.api.list(CLIENT_QUOTAS)
    views = (
        projections(parsed(obj), {ledger.cluster: cluster}).get(ledger.cluster)
        for obj in listing.items
    )
    return [
        view
        for view in views
        if view is not None and not view.is_terminating and view.entity == entity
    ]


def _declaring(documents: Sequence[Resource], key: Key) -> Sequence[Resource]:
    """Return the documents that declare a key and whose status shows its live value, or is not written yet."""
    return [
        document
        for document in documents
        if _declares(document, key) and _shows_live(document, key)
    ]


def _declares(document: Resource, key: Key) -> bool:
    return RULES[key].field in document.spec.get("limits", {})


def _shows_live(document: Resource, key: Key) -> bool:
    """Whether the status of a document shows the live value of a key, or that it has none.

    Without a grant it shows only what the document owns, also after the QuotaCluster became invalid and the reason changed.
    A suspended document has a grant, and an entry that it got without one is not kept (``kube/status/client_quota.py``).
    """
    items = _items(document, key)
    reason = condition_of(document.status, "Ready").get("reason")
    if any("applied" in item for item in items):
        return True
    if reason == "NotGranted":
        return False
    return (
        not items
        or reason == "Suspended"
        or any("live" in item or item.get("cause") != "Frozen" for item in items)
    )


def _items(document: Resource, key: Key) -> Sequence[Mapping[str, Any]]:
    """Return the status entries of a key."""
    items = document.status.get("keys") or ()
    return [item for item in items if isinstance(item, dict) and item.get("key") == key.value]


def _with_overrides(stored: StoredRecords, new_overrides: Sequence[Override]) -> StoredRecords:
    changes = [OverrideSet(override=override) for override in new_overrides]
    return replace(stored, owned=stored.owned.with_changes(changes))


def _build_override(
    stored: StoredRecords,
    request: OverrideRequest,
    key: Key,
    value: float | None,
    documents: Sequence[Resource],
) -> Override:
    previous = stored.owned.overrides.get((request.entity, key))
    declaring = _declaring(documents, key)
    if not declaring and previous is None:
        pair = f"{key} of {entity_text(request.entity)}"
        raise UsageError(
            f"no ClientQuota that declares {pair} shows its live value"
            if any(_declares(document, key) for document in documents)
            else f"no ClientQuota declares {pair}",
            hint="declare it where that has an effect, or run kquota override against the brokers themselves",
        )
    item = _item(declaring, key)
    live, declared = _number(item.get("live")), _number(item.get("desired"))
    override = Override(
        entity=request.entity,
        key=key,
        value=value,
        until=request.until,
        author=request.author,
        reason=request.reason,
        declared=declared,
    )
    if previous is not None and not declaring:  # No status shows the live value.
        live = previous.value
    return override.begun(stored.owned.overrides.get(override.pair), live)


def _item(declaring: Sequence[Resource], key: Key) -> Mapping[str, Any]:
    """Return the status entry of the key; all documents that declare it show the same live value.

    The declared value is that of the document which is in effect: else the author of another one would choose it.
    """
    items = [item for document in declaring for item in _items(document, key)]
    if declaring and not items:
        raise KquotaError(
            f"the operator has not observed {key} yet", hint="wait until the ClientQuota is Ready"
        )
    return min(items, key=_rank, default={})


def _rank(item: Mapping[str, Any]) -> tuple[bool, bool]:
    """Return the order of the entries of one pair: documents that lost it or are frozen come last, of those the owner first."""
    return item.get("cause") in _WITHOUT_EFFECT, "applied" not in item


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None
