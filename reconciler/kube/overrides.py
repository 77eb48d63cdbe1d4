"""Overrides where an operator acts: written into its ledger, carried out by its next pass. Kafka is not asked from here.

What an override replaces has to be known when it begins, because it comes back at the end. A document's status says
it; so only pairs that a document declares (or that already have an override) can be overridden here.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from reconciler.errors import ConfigError, KquotaError, NotFound, UsageError
from reconciler.kube import asking, shelf
from reconciler.kube.api import Api
from reconciler.kube.records import entity_of
from reconciler.kube.resources import Obj, cluster_name_of, is_terminating, spec_of, status_of
from reconciler.kube.served import CLIENT_QUOTAS, QUOTA_CLUSTERS
from reconciler.kube.shards import Kept
from reconciler.ports import Clock
from reconciler.quota.entity import Entity
from reconciler.quota.keys import FIELDS, Key, same_value
from reconciler.quota.owned import Override, OverrideSet, Pair
from reconciler.render.names import entity_text

_FIELD_OF: Final = {key: name for name, key in FIELDS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """Where the overrides of one Kafka cluster are.

    Attributes:
        api: The way to the API server.
        namespace: The operator's own.
        cluster: Name of the QuotaCluster.
        cluster_id: Id of the Kafka cluster, as the operator pinned it.
    """

    api: Api
    namespace: str
    cluster: str
    cluster_id: str


async def ledger(api: Api, *, namespace: str, cluster: str) -> Ledger:
    """The ledger of a QuotaCluster.

    Raises:
        UsageError: There is no such QuotaCluster.
        ConfigError: The operator has never reached its Kafka cluster.
    """
    try:
        obj = await api.get(QUOTA_CLUSTERS, None, cluster)
    except NotFound:
        raise UsageError(
            f"there is no QuotaCluster {cluster}", hint="kubectl get quotaclusters lists them"
        ) from None
    found = spec_of(obj).get("expectedClusterId") or status_of(obj).get("clusterId")
    if not isinstance(found, str):
        raise ConfigError(
            f"QuotaCluster {cluster} has no cluster id yet: no operator has reached its brokers",
            hint="kquota operator check says why",
        )
    return Ledger(api=api, namespace=namespace, cluster=cluster, cluster_id=found)


async def overrides(where: Ledger) -> Mapping[Pair, Override]:
    """Overrides that are in force, and those whose value was not replaced yet.

    Raises:
        InventoryError: The ledger cannot be read.
        KubernetesError: The API server cannot be asked.
    """
    return (await shelf.read(where.api, where.namespace, where.cluster_id)).rest.overrides


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """An override as it was asked for.

    Attributes:
        entity: Whose quota.
        values: By key; ``None`` = not set.
        until: Seconds since the epoch.
        who: Who asks.
        reason: Why.
    """

    entity: Entity
    values: Mapping[Key, float | None]
    until: float
    who: str
    reason: str


async def begin(where: Ledger, wanted: Wanted) -> Sequence[Override]:
    """Write overrides down; they are in force from the operator's next pass on.

    Raises:
        UsageError: A pair is declared by no document, so that nobody here knows what the override replaces.
        InventoryError: The ledger cannot be read.
        KubernetesError: The API server cannot be asked.
    """
    listing = await where.api.list(CLIENT_QUOTAS)
    documents = [
        one
        for one in listing.items
        if cluster_name_of(one) == where.cluster
        and not is_terminating(one)
        and entity_of(one) == wanted.entity
    ]
    made: list[Override] = []

    def work(kept: Kept) -> Kept:
        made[:] = [
            _made(kept, wanted, key, value, documents) for key, value in wanted.values.items()
        ]
        return _with(kept, made)

    _ = await shelf.change(where.api, where.namespace, where.cluster_id, work)
    return made


async def end(where: Ledger, pairs: frozenset[Pair], *, now: float) -> Sequence[Override]:
    """End overrides now; what they replaced comes back with the operator's next pass.

    Raises:
        UsageError: There is no such override.
        InventoryError: The ledger cannot be read.
        KubernetesError: The API server cannot be asked.
    """
    made: list[Override] = []

    def work(kept: Kept) -> Kept:
        missing = sorted(entity_text(pair[0]) for pair in pairs - kept.rest.overrides.keys())
        if missing:
            raise UsageError(f"there is no override of {missing[0]} to end")
        made[:] = [
            replace(one, until=min(one.until, now))
            for pair, one in kept.rest.overrides.items()
            if pair in pairs
        ]
        return _with(kept, made)

    _ = await shelf.change(where.api, where.namespace, where.cluster_id, work)
    return made


async def carried_out(where: Ledger, *, seconds: float, clock: Clock) -> bool:
    """Ask the operator for a pass, and whether one was made in time.

    Raises:
        KubernetesError: The QuotaCluster may not be patched, or cannot be read.
    """
    place = (where.api, QUOTA_CLUSTERS, None, where.cluster)
    value = await asking.request(*place, clock=clock)
    return (await asking.wait(*place, value=value, seconds=seconds, clock=clock)).handled


def _with(kept: Kept, made: Sequence[Override]) -> Kept:
    changes = [OverrideSet(override=one) for one in made]
    return replace(kept, rest=kept.rest.with_changes(changes))


def _made(
    kept: Kept, wanted: Wanted, key: Key, value: float | None, documents: Sequence[Obj]
) -> Override:
    earlier = kept.rest.overrides.get((wanted.entity, key))
    declaring = [one for one in documents if _FIELD_OF[key] in spec_of(one).get("limits", {})]
    if not declaring and earlier is None:
        raise UsageError(
            f"no ClientQuota declares {key} of {entity_text(wanted.entity)}",
            hint="declare it, or run kquota override against the brokers themselves",
        )
    item = _item(declaring, key)
    live, declared = _number(item.get("live")), _number(item.get("desired"))
    # An override of an override still replaces what stood there before the first one.
    chained = earlier is not None and (not declaring or same_value(key, earlier.value, live))
    return Override(
        entity=wanted.entity,
        key=key,
        value=value,
        until=wanted.until,
        who=wanted.who,
        reason=wanted.reason,
        before=earlier.before if chained and earlier is not None else live,
        declared=declared if earlier is None or declaring else earlier.declared,
    )


def _item(declaring: Sequence[Obj], key: Key) -> Mapping[str, Any]:
    """What a status says of the key; rivals see the same live value."""
    for obj in declaring:
        for item in status_of(obj).get("keys") or ():
            if isinstance(item, dict) and item.get("key") == key.value:
                return item
    if declaring:
        raise KquotaError(
            f"the operator has not looked at {key} yet, so what an override would replace is not known",
            hint="wait until the ClientQuota is Ready",
        )
    return {}


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None
