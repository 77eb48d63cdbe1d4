"""The status of a ClientQuota that selects clusters: the part of each cluster, and conditions over all of them. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from reconciler.kube.api.custom_resources import Obj, Resource, condition_of
from reconciler.kube.status.conditions import conditions, first_of
from reconciler.kube.status.reasons import NAMED, Reason, worst
from reconciler.kube.watch.projection import parts_of

RELEASED: Final = "released"
"""Field of a part: the cluster has released the deleted document."""

MOST_CLUSTERS: Final = 256
"""Maximum number of listed clusters, as the definition allows; the conditions cover all of them."""

MOST_NAMED: Final = 3
"""Maximum number of clusters in a message."""


def selection_status(
    obj: Resource, *, clusters: Sequence[str], cluster: str, part: Mapping[str, Any], now: float
) -> dict[str, Any]:
    """Return the status of the document after one cluster reported.

    Args:
        obj: The document as the API server has it.
        clusters: The clusters that it selects, sorted; parts of other clusters are dropped.
        cluster: The cluster that reports.
        part: Its report, in the form of the status of a document with clusterRef.
        now: Seconds since the epoch.
    """
    previous = obj.status
    parts = {name: entry for name, entry in parts_of(obj).items() if name in clusters}
    if cluster in clusters:
        own = {field: value for field, value in part.items() if field != "entity"}
        parts[cluster] = {"name": cluster, **own}
    ready = [name for name in clusters if _reason(obj, parts.get(name)) in _READY]
    status: dict[str, Any] = {"observedGeneration": obj.generation}
    handled = _handled(obj, clusters, parts)
    if handled is not None:
        status["lastHandledReconcileAt"] = handled
    entity = part.get("entity", previous.get("entity"))
    if entity is not None:
        status["entity"] = entity
    status["clustersReady"] = f"{len(ready)}/{len(clusters)}"
    status["clusters"] = [parts[name] for name in clusters if name in parts][:MOST_CLUSTERS]
    reason, message = _summary(obj, clusters, parts)
    status["conditions"] = conditions(
        reason,
        message,
        generation=obj.generation,
        previous=previous.get("conditions", ()),
        now=now,
        drifted=_aspect("Drifted", parts),
        conflict=_aspect("Conflict", parts),
        doubt=_aspect("Doubtful", parts) or "",
    )
    return status


_READY: Final = frozenset(reason for reason in Reason if reason.ready == "True")


def _reason(obj: Resource, part: Obj | None) -> Reason:
    """Return the reason that a cluster reports for the current generation; ``Pending`` before that."""
    if part is None or part.get("observedGeneration") != obj.generation:
        return Reason.PENDING
    return NAMED.get(str(condition_of(part, "Ready").get("reason")), Reason.PENDING)


def _summary(
    obj: Resource, clusters: Sequence[str], parts: Mapping[str, Obj]
) -> tuple[Reason, str]:
    """Return the worst reason of all clusters, with the message of each cluster that reports it."""
    reasons = {name: _reason(obj, parts.get(name)) for name in clusters}
    reason = worst(*reasons.values())
    if reason is Reason.SYNCED:
        return reason, reason.message
    reporting_clusters = [name for name in clusters if reasons[name] is reason]
    return reason, _sentence(
        (name, str(condition_of(parts.get(name, {}), "Ready").get("message", "")))
        if parts.get(name, {}).get("observedGeneration") == obj.generation
        else (name, reason.message)
        for name in reporting_clusters
    )


def _aspect(kind: str, parts: Mapping[str, Obj]) -> str | None:
    """Return the message of a condition over all clusters; "" = false everywhere, ``None`` = no cluster compared it."""
    cluster_conditions = {name: condition_of(part, kind) for name, part in parts.items()}
    words = [
        (name, str(condition.get("message", "")))
        for name, condition in sorted(cluster_conditions.items())
        if condition.get("status") == "True"
    ]
    if words:
        return _sentence(words)
    return (
        ""
        if any(condition.get("status") == "False" for condition in cluster_conditions.values())
        else None
    )


def _sentence(messages: Iterable[tuple[str, str]]) -> str:
    """Join messages, each after its cluster's name; at most ``MOST_NAMED``."""
    return first_of((f"{name}: {message}" for name, message in messages), MOST_NAMED)


def _handled(obj: Resource, clusters: Sequence[str], parts: Mapping[str, Obj]) -> str | None:
    """Return the last reconcile request that every cluster has handled."""
    requested = obj.requested_at
    if requested is not None and all(
        parts.get(name, {}).get("lastHandledReconcileAt") == requested[:128] for name in clusters
    ):
        return requested[:128]
    previous = obj.status.get("lastHandledReconcileAt")
    return previous if isinstance(previous, str) else None
