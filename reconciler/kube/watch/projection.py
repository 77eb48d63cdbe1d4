"""A ClientQuota per QuotaCluster: itself if it refers to the cluster, a projection if it selects clusters.

A projection has clusterRef, the limits of that cluster, and the status part of that cluster. So all code that reads
the cache handles documents of one cluster. `status.selection_status` combines the parts again.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from reconciler.kube.api.custom_resources import Obj, Projection, Resource
from reconciler.manifest.cluster_selector import ClusterSelector, Labels, selection_labels
from reconciler.manifest.document import DocumentDeclined, read_selector
from reconciler.quota.keys import COLUMNS, RULES, key_columns
from reconciler.quota.planner.desired_state import NO_SELECTIONS, Selections

NO_CLUSTER: Final = ""
"""Key of documents that belong to no cluster."""


def selects_clusters(obj: Resource) -> bool:
    """Whether a ClientQuota selects clusters, or would if its selector were valid."""
    return "clusterRef" not in obj.spec


# A document that selects is expanded before any other rule: docs/adr/cluster-selectors.md.
def projections(obj: Resource, clusters: Mapping[str, Resource]) -> Mapping[str, Resource]:
    """Return a ClientQuota for each of its clusters, by cluster name.

    A document whose selector is invalid, or that exceeds the limits of its namespace, stays in the clusters that its
    status lists: what it owns there is frozen.

    Args:
        clusters: The QuotaClusters, by name.
    """
    if not selects_clusters(obj):
        return {obj.cluster_name: obj}
    selector = _selector(obj.spec)
    if selector is None:
        views = {name: _frozen(obj, name) for name in parts_of(obj) if name in clusters}
    else:
        views = {
            name: _projected(obj, selector, name, labels)
            for name, cluster in clusters.items()
            if selector.matches(labels := labels_in_selectors(cluster))
        }
    return views or {NO_CLUSTER: obj}


def labels_in_selectors(cluster: Resource) -> Labels:
    """Return the labels of a QuotaCluster that selectors match."""
    return selection_labels(cluster.name, cluster.labels)


def is_selector_readable(obj: Resource) -> bool:
    """Whether the selector of a document is valid, so that clusters that it does not match count as deselected."""
    return _selector(obj.spec) is not None


def parts_of(obj: Resource) -> Mapping[str, Obj]:
    """Return the status parts of a ClientQuota by cluster name."""
    items = obj.status.get("clusters")
    return {
        item["name"]: item
        for item in (items if isinstance(items, list) else ())
        if isinstance(item, Mapping) and isinstance(item.get("name"), str)
    }


def _selector(spec: Obj) -> ClusterSelector | None:
    try:
        return read_selector(spec["clusterSelector"])
    except (DocumentDeclined, KeyError, TypeError):
        return None


def _projected(obj: Resource, selector: ClusterSelector, name: str, labels: Labels) -> Resource:
    spec = obj.spec
    try:
        limits, selections = _limits(spec, selector, name, labels)
    except (DocumentDeclined, KeyError, TypeError, AttributeError, ValueError):
        return _frozen(obj, name)
    general = {
        field: value
        for field, value in spec.items()
        if field not in {"clusterSelector", "clusterLimits"}
    }
    return _view(obj, name, {**general, "clusterRef": {"name": name}, "limits": limits}, selections)


def _limits(
    spec: Obj, selector: ClusterSelector, name: str, labels: Labels
) -> tuple[dict[str, Any], Selections]:
    """Return the limits of one cluster, and the rule that set each.

    Raises:
        DocumentDeclined, KeyError, TypeError, AttributeError, ValueError: The spec does not fit the schema.
    """
    limits: dict[str, Any] = dict(spec["limits"])
    rules = dict.fromkeys(limits, str(selector))
    for index, item in enumerate(spec.get("clusterLimits", ())):
        reference = item.get("clusterRef")
        clusters = (
            reference["name"] if reference is not None else read_selector(item["clusterSelector"])
        )
        applies = clusters == name if isinstance(clusters, str) else clusters.matches(labels)
        if applies:
            limits |= item["limits"]
            rules |= dict.fromkeys(item["limits"], f"{selector}; clusterLimits[{index}] {clusters}")
    return limits, key_columns([rules.get(RULES[key].field, "") for key in COLUMNS])


def _frozen(obj: Resource, name: str) -> Resource:
    """Return the document with its spec unchanged: it claims nothing, and its status reports why."""
    return _view(obj, name, obj.spec, NO_SELECTIONS)


def _view(obj: Resource, name: str, spec: Obj, selections: Selections) -> Resource:
    part = parts_of(obj).get(name, {})
    status = {field: value for field, value in part.items() if field != "name"}
    if "entity" in obj.status:
        status["entity"] = obj.status["entity"]  # The same for all clusters.
    projection = Projection(cluster=name, selections=selections)
    return replace(obj, spec=spec, status=status, projection=projection)
