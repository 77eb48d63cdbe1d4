"""Custom resources as values: a missing or malformed field never raises an exception, and versions are compared as numbers."""

import pytest

from reconciler.kube.api.custom_resources import (
    API_VERSION,
    FINALIZER,
    GROUP,
    MOST_REQUEST,
    REQUESTED_AT,
    Resource,
    parsed,
    time_text,
)

FULL = {
    "metadata": {
        "name": "a",
        "namespace": "team",
        "uid": "u",
        "generation": 3,
        "resourceVersion": "7",
        "creationTimestamp": "2024-01-01T00:00:00Z",
        "deletionTimestamp": "2024-01-02T00:00:00Z",
        "finalizers": ["other/one", FINALIZER],
        "annotations": {REQUESTED_AT: "now" * MOST_REQUEST, "other": "x" * 100},
        "managedFields": [{}],
    },
    "spec": {"clusterRef": {"name": "prod"}, "operatorClass": "blue"},
}


def test_what_is_read_of_an_object_is_kept_and_nothing_else() -> None:
    obj = parsed(FULL)
    assert obj == Resource(
        name="a",
        namespace="team",
        uid="u",
        generation=3,
        version="7",
        created=1_704_067_200.0,
        deleted_at=1_704_153_600.0,
        requested_at=("now" * MOST_REQUEST)[:MOST_REQUEST],
        finalizer=1,
        has_finalizers=True,
        spec=FULL["spec"],
        is_stored=False,
    )
    assert (obj.document, obj.cluster_name, obj.operator_class) == ("team/a", "prod", "blue")
    assert obj.is_terminating
    assert obj.has_finalizer


@pytest.mark.parametrize(
    "obj",
    [
        {},
        {"metadata": None, "spec": None, "status": 5},
        {"metadata": {"annotations": None, "finalizers": None, "generation": "x"}},
        {"metadata": {"annotations": {REQUESTED_AT: 5}, "labels": []}, "spec": {"clusterRef": 5}},
    ],
)
def test_what_has_another_form_is_left_out(obj: dict[str, object]) -> None:
    resource = parsed(obj)
    assert resource.request == parsed({}).request
    assert (resource.status, resource.created, resource.has_finalizer) == ({}, 0.0, False)
    assert (resource.cluster_name, resource.entity) == ("", None)


def test_names_equal_those_of_the_crds() -> None:
    assert (GROUP, API_VERSION) == ("kafka-quotas.io", "kafka-quotas.io/v1alpha1")
    assert FINALIZER == "kafka-quotas.io/release"
    assert REQUESTED_AT == "kafka-quotas.io/requestedAt"


def test_times_are_whole_seconds_as_kubernetes_writes_them() -> None:
    text = time_text(1_704_067_200.9)
    assert text == "2024-01-01T00:00:00Z"
    assert parsed({"metadata": {"creationTimestamp": text}}).created == 1_704_067_200.0


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("9", "10", True),
        ("10", "9", False),
        ("10", "10", False),
        ("", "10", False),
        ("9", "opaque", False),
        ("\u0664", "10", False),
    ],
)
def test_resource_versions_are_compared_as_numbers_or_are_undecided(
    first: str, second: str, expected: bool
) -> None:
    assert Resource(version=first).is_before(Resource(version=second)) is expected


def test_a_listing_contains_writes_up_to_its_version() -> None:
    assert Resource(version="9").is_within("10")
    assert Resource(version="10").is_within("10")
    assert not Resource(version="11").is_within("10")
    assert Resource(version="opaque").is_within("10"), "an unknown order hides no deletion"
    assert Resource(version="11").is_within("opaque")
