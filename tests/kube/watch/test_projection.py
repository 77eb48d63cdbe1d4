"""Projections: the part of a document that each selected cluster gets, and frozen parts."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.kube.api.custom_resources import Resource
from reconciler.kube.watch.projection import (
    labels_in_selectors,
    parts_of,
    projections,
)
from reconciler.kube.watch.resource_cache import ResourceCache
from reconciler.manifest.document import from_resource
from reconciler.quota.planner.desired_state import NO_SELECTIONS
from tests.kube.worlds import seen
from tests.manifest.project.test_fleet_law import documents, fleets
from tests.manifest.samples import quota, selecting


def clusters_of(fleet: dict[str, dict[str, str]]) -> dict[str, Resource]:
    return {
        name: Resource(name=name, uid=f"uid-{name}", labels=labels)
        for name, labels in fleet.items()
    }


PROD = clusters_of({"eu-1": {"tier": "prod"}, "eu-2": {"tier": "prod"}, "lab": {}})


@given(st.data(), fleets)
def test_a_projection_contains_the_limits_of_that_cluster(
    data: st.DataObject, fleet: dict[str, dict[str, str]]
) -> None:
    document = data.draw(documents(sorted(fleet)))
    clusters = clusters_of(fleet)
    views = dict(projections(seen(document), clusters))
    labels = {name: labels_in_selectors(cluster) for name, cluster in clusters.items()}
    expected = dict(from_resource(document).declarations(labels))
    if not expected:
        assert views == {"": seen(document)}
        return
    assert views.keys() == expected.keys()
    for name, declaration in expected.items():
        view = views[name]
        read = from_resource({**document, "spec": view.spec})
        selections = view.projection.selections if view.projection else NO_SELECTIONS
        assert (read.cluster, replace(read.declaration, selections=selections)) == (
            name,
            declaration,
        )
        assert view.cluster_name == name


def test_a_projection_contains_the_part_of_the_status_about_its_cluster() -> None:
    parts = [{"name": "eu-1", "clusterId": "x"}, "damaged", {"clusterId": "y"}]
    document = selecting() | {"status": {"clusters": parts, "clustersReady": "1/2"}}
    views = projections(seen(document), PROD)
    assert views["eu-1"].status == {"clusterId": "x"}
    assert views["eu-2"].status == {}
    assert list(parts_of(seen(document))) == ["eu-1"]
    assert parts_of(seen(quota() | {"status": {"clusters": 5}})) == {}


def test_a_document_with_an_unreadable_selector_stays_in_the_clusters_of_its_status() -> None:
    status = {"clusters": [{"name": "eu-1"}, {"name": "gone"}]}
    broken = selecting(clusterSelector={"matchExpressions": 5}) | {"status": status}
    views = projections(seen(broken), PROD)
    assert list(views) == ["eu-1"]
    assert views["eu-1"].spec == broken["spec"], "so that its own mistake is reported"


def observed(cache: ResourceCache, document: dict[str, Any], version: str = "1") -> frozenset[str]:
    metadata = document["metadata"] | {"uid": "u1", "resourceVersion": version, "generation": 1}
    return cache.observe(seen({**document, "metadata": metadata}))


def test_the_cache_triggers_newly_selected_and_deselected_clusters() -> None:
    cache = ResourceCache()
    for cluster in PROD.values():
        _ = cache.cluster_seen(cluster)
    assert observed(cache, selecting()) == {"eu-1", "eu-2"}
    assert observed(cache, selecting(), "2") == frozenset()
    moved = clusters_of({"lab": {"tier": "prod"}})["lab"]
    assert cache.cluster_seen(moved) == {"lab"}
    assert cache.clusters_of("payments/a") == ("eu-1", "eu-2", "lab")
    assert cache.cluster_seen(clusters_of({"eu-1": {}})["eu-1"]) == {"eu-1"}
    assert list(cache.of("eu-1")) == []
    assert cache.cluster_gone(PROD["eu-2"]) == {"eu-2"}
    assert cache.clusters_of("payments/a") == ("lab",)
    assert len(cache._originals) == 1


def test_the_cache_triggers_a_cluster_whose_labels_select_other_limits() -> None:
    cache = ResourceCache()
    for cluster in PROD.values():
        _ = cache.cluster_seen(cluster)
    item = {
        "clusterSelector": {"matchLabels": {"size": "large"}},
        "limits": {"producerByteRate": 1},
    }
    _ = observed(cache, selecting(clusterLimits=[item]))
    large = clusters_of({"eu-1": {"tier": "prod", "size": "large"}})["eu-1"]
    assert cache.cluster_seen(large) == {"eu-1"}
    assert cache.of("eu-1")["payments/a"].spec["limits"] == {"producerByteRate": 1}
    assert cache.of("eu-2")["payments/a"].spec["limits"] == {"producerByteRate": "10Mi"}
