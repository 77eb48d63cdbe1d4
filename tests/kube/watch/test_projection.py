"""Projections: the part of a document that each selected cluster gets, and frozen parts."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.kube.api.custom_resources import Resource
from reconciler.kube.watch.projection import (
    labels_in_selectors,
    projections,
)
from reconciler.manifest.document import from_resource
from reconciler.quota.planner.desired_state import NO_SELECTIONS
from tests.kube.worlds import seen
from tests.manifest.project.test_fleet_law import documents, fleets
from tests.manifest.samples import selecting


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


def test_a_document_with_an_unreadable_selector_stays_in_the_clusters_of_its_status() -> None:
    status = {"clusters": [{"name": "eu-1"}, {"name": "gone"}]}
    broken = selecting(clusterSelector={"matchExpressions": 5}) | {"status": status}
    views = projections(seen(broken), PROD)
    assert list(views) == ["eu-1"]
    assert views["eu-1"].spec == broken["spec"], "so that its own mistake is reported"
