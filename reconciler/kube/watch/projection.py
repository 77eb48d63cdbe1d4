"""A ClientQuota per QuotaCluster: itself if it refers to the cluster, a projection if it selects clusters.

A projection has clusterRef, the limits of that cluster, and the status part of that cluster. So all code that reads
the cache handles documents of one cluster. `status.selection_status` combines the parts again.
"""

from collections.abc import Mapping
from typing import Any, Final

from reconciler.kube.api.custom_resources import (
    PROJECTION,
    Obj,
    cluster_name_of,
    labels_of,
    name_of,
    spec_of,
    status_of,
)
from reconciler.manifest.cluster_selector import ClusterSelector, Labels, selection_labels
from reconciler.manifest.document import DocumentDeclined, read_selector
from reconciler.quota.keys import COLUMNS, RULES, key_columns
from reconciler.quota.planner.desired_state import NO_SELECTIONS, Selections

NO_CLUSTER: Final = ""
"""Key of documents that belong to no cluster."""


def selects_clusters(obj: Obj) -> bool:
    """Whether a ClientQuota selects clusters, or would if its selector were valid."""
    return "clusterRef" not in spec_of(obj)


# A document that selects is expanded before any other rule: docs/adr/cluster-selectors.md.
def projections(obj: Obj, clusters: Mapping[str, Obj]) -> Mapping[str, Obj]:
    """Return a ClientQuota for each of its clusters, by cluster name.

    A document whose selector is invalid, or that exceeds the limits of its namespace, stays in the clusters that its
    status lists: what it owns there is frozen.

    Args:
        clusters: The QuotaClusters, by name.
    """
    if not selects_clusters(obj):
        return {cluster_name_of(obj): obj}
    selector = _selector(spec_of(obj))
    if selector is None:
        views = {name: _frozen(obj, name) for name in parts_of(obj) if name in clusters}
    else:
        views = {
            name: _projected(obj, selector, name, labels)
            for name, cluster in clusters.items()
            if selector.matches(labels := labels_in_selectors(cluster))
        }
    return views or {NO_CLUSTER: obj}


def labels_in_selectors(cluster: Obj) -> Labels:
    """Return the labels of a QuotaCluster that selectors match."""
    return selection_labels(name_of(cluster), labels_of(cluster))


def is_selector_readable(obj: Obj) -> bool:
    """Whether the selector of a document is valid, so that clusters that it does not match count as deselected."""
    return _selector(spec_of(obj)) is not None


def selections_of(obj: Obj) -> Selections:
    """Return the rule that set each value of a projection, by column."""
    projection = obj.get(PROJECTION)
    return NO_SELECTIONS if projection is None else projection["selections"]


def parts_of(obj: Obj) -> Mapping[str, Obj]:
    """Return the status parts of a ClientQuota by cluster name."""
    items = status_of(obj).get("clusters")
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


def _projected(obj: Obj, selector: ClusterSelector, name: str, labels: Labels) -> Obj:
    spec = spec_of(obj)
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


def _frozen(obj: Obj, name: str) -> Obj:
    """Return the document with its spec unchanged: it claims nothing, and its status reports why."""
    return _view(obj, name, spec_of(obj), NO_SELECTIONS)


def _view(obj: Obj, name: str, spec: Obj, selections: Selections) -> Obj:
    view: dict[str, Any] = {field: value for field, value in obj.items() if field != "status"}
    part = parts_of(obj).get(name)
    if part is not None:
        view["status"] = {field: value for field, value in part.items() if field != "name"}
    return {**view, "spec": spec, PROJECTION: {"cluster": name, "selections": selections}}
