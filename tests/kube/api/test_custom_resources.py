"""Readers of custom resources: a missing or malformed field never raises an exception."""

import pytest

from reconciler.kube.api import custom_resources as r

FULL = {
    "metadata": {
        "name": "a",
        "namespace": "team",
        "uid": "u",
        "generation": 3,
        "resourceVersion": "7",
        "creationTimestamp": "2024-01-01T00:00:00Z",
        "deletionTimestamp": "2024-01-02T00:00:00Z",
        "finalizers": ["other/one", r.FINALIZER],
        "annotations": {r.REQUESTED_AT: "now"},
    },
    "spec": {"clusterRef": {"name": "prod"}, "operatorClass": "blue"},
}


def test_all_documents_and_clusters_are_read():
    assert r.document_of(FULL) == "team/a"
    assert r.uid_of(FULL) == "u"
    assert r.generation_of(FULL) == 3
    assert r.resource_version_of(FULL) == "7"
    assert r.created_of(FULL) == 1_704_067_200.0
    assert r.deletion_requested_at(FULL) == 1_704_153_600.0
    assert r.is_terminating(FULL)
    assert r.has_finalizer(FULL)
    assert r.requested_at(FULL) == "now"
    assert r.cluster_name_of(FULL) == "prod"
    assert r.operator_class_of(FULL) == "blue"


@pytest.mark.parametrize(
    "obj",
    [
        {},
        {"metadata": None, "spec": None},
        {"metadata": {"annotations": None, "finalizers": None}, "spec": {"clusterRef": None}},
        {"metadata": {"annotations": {r.REQUESTED_AT: 5}}, "spec": {"clusterRef": {"name": 5}}},
    ],
)
def test_missing_objects_are_returned_as_none(obj):
    assert r.generation_of(obj) == 0
    assert r.created_of(obj) == 0.0
    assert r.deletion_requested_at(obj) is None
    assert not r.is_terminating(obj)
    assert not r.has_finalizer(obj)
    assert r.requested_at(obj) is None
    assert r.cluster_name_of(obj) == ""
    assert r.status_of(obj) == {}


def test_names_equal_those_of_the_crds():
    assert (r.GROUP, r.API_VERSION) == ("kafka-quotas.io", "kafka-quotas.io/v1alpha1")
    assert r.FINALIZER == "kafka-quotas.io/release"
    assert r.REQUESTED_AT == "kafka-quotas.io/requestedAt"


def test_times_are_whole_seconds_as_kubernetes_writes_them():
    assert r.time_text(1_704_067_200.9) == "2024-01-01T00:00:00Z"
    assert r.created_of({"metadata": {"creationTimestamp": r.time_text(1_704_067_200.9)}}) == (
        1_704_067_200.0
    )
