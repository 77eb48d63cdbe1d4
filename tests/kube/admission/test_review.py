"""Reviews at admission: everything is admitted, with warnings about what the operator will not apply."""

from typing import Any

import pytest

from reconciler.kube.admission.review import (
    LONGEST_WARNING,
    MOST_WARNINGS,
    MalformedReview,
    answer,
    parse,
    warnings_about,
)
from reconciler.kube.api.custom_resources import Resource
from tests.kube.reviews import quota, review
from tests.kube.worlds import seen

EUROPE = {"eu-1": {"region": "eu"}, "eu-2": {"region": "eu"}, "us-1": {"region": "us"}}
NOT_GRANTED = [{"namespaces": ["others"], "entities": [{"user": {"exact": "bob"}}]}]


def fleet(labels: Any, **spec: Any) -> dict[str, Resource]:
    """QuotaClusters by name; the one named ``broken`` cannot be used."""
    spec = {"bootstrapServers": "broker:9092", **spec}
    return {
        name: Resource(name=name, labels=own, spec={} if name == "broken" else spec)
        for name, own in labels.items()
    }


def warned(obj: dict[str, Any], labels: Any = {"prod": {}, "broken": {}}, **spec: Any) -> Any:  # noqa: B006 - not changed
    request = parse(review(obj))
    assert request.obj is not None
    return warnings_about(seen(request.obj), fleet(labels, **spec), allow_references=False)


def selecting(**spec: Any) -> dict[str, Any]:
    obj = quota()
    del obj["spec"]["clusterRef"]
    obj["spec"] |= {"clusterSelector": {"matchLabels": {"region": "eu"}}, **spec}
    return obj


def unnamed() -> dict[str, Any]:
    obj = quota()
    del obj["metadata"]["name"], obj["metadata"]["namespace"]
    obj["metadata"]["generateName"] = "alice-"
    return obj


FACTOR = "a guard will refuse it: producerByteRate 10 B/s is below 1024 (1 KiB/s): a wrong unit?"
TINY = {"limits": {"producerByteRate": 10}}


@pytest.mark.parametrize(
    ("obj", "spec", "beginnings"),
    [
        pytest.param(quota(), {}, [], id="a document that is applied"),
        pytest.param(unnamed(), {}, [], id="a document without a name"),
        pytest.param(selecting(), {}, [], id="a document that selects clusters"),
        pytest.param(quota(**TINY), {}, [FACTOR], id="a value that a guard refuses"),
        pytest.param(quota(**TINY), {"suspend": True}, [], id="a suspended cluster"),
        pytest.param(
            quota(entity={"user": {"default": True}}),
            {},
            ["a guard will refuse it: create on a default entity affects every"],
            id="a default entity",
        ),
        pytest.param(
            quota(entity={"user": {"name": "User:alice"}}),
            {},
            ["user 'User:alice': quotas name the user without"],
            id="a name that matches nobody",
        ),
        pytest.param(
            quota(),
            {"tenants": NOT_GRANTED},
            ["it will not be applied: "],
            id="a document without a grant",
        ),
        pytest.param(
            quota(limits={"producerByteRate": 1, "fromTheFuture": 2}),
            {},
            ["it will not be applied: "],
            id="a document with unknown fields",
        ),
        pytest.param(
            quota(cluster="missing"),
            {},
            ["QuotaCluster missing does not exist yet"],
            id="a missing cluster",
        ),
        pytest.param(
            quota(cluster="broken"),
            {},
            ["QuotaCluster broken is invalid; see its status"],
            id="an invalid cluster",
        ),
        pytest.param(
            selecting(clusterSelector={"matchLabels": {"region": "mars"}}),
            {},
            ["clusterSelector region=mars selects no QuotaCluster"],
            id="a selector without a match",
        ),
        pytest.param(
            selecting(clusterLimits=[{"clusterRef": {"name": "eu-2"}, **TINY}]),
            {},
            [f"eu-2: {FACTOR}"],
            id="a value of one of several clusters",
        ),
    ],
)
def test_a_review_warns_about_what_will_not_be_applied(
    obj: dict[str, Any], spec: dict[str, Any], beginnings: list[str]
) -> None:
    warnings = warned(obj, {"prod": {}, "broken": {}, **EUROPE}, **spec)
    assert len(warnings) == len(beginnings)
    for warning, beginning in zip(warnings, beginnings, strict=True):
        assert warning.startswith(beginning)


def test_the_number_and_length_of_warnings_is_limited() -> None:
    many = {f"c{number}": {"region": "eu"} for number in range(20)}
    obj = selecting(entity={"user": {"name": "x" * 500}}, limits={"producerByteRate": 10})
    warnings = warned(obj, many)
    assert len(warnings) == MOST_WARNINGS
    assert warnings[-1] == "and 9 more warnings"
    assert max(map(len, warnings)) <= LONGEST_WARNING


def passed_over(**request: Any) -> bool:
    return parse(review(quota(), **request)).obj is None


def test_other_operations_subresources_and_resources_are_admitted() -> None:
    terminating = quota()
    terminating["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert passed_over(operation="DELETE")
    assert passed_over(subResource="status")
    assert passed_over(resource={"group": "", "version": "v1", "resource": "pods"})
    assert passed_over(object=terminating)
    assert parse(review(quota(), old=quota())).obj is None
    assert parse(review(quota(), old=quota("bob"))).obj is not None


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        {},
        {"kind": "AdmissionReview"},
        {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1beta1"},
        {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": []},
        {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {"uid": 1}},
        review(None),
        review([]),
        review({"metadata": "x"}),
        review(quota(), uid=""),
        review(quota(), uid="x" * 1000),
    ],
)
def test_a_malformed_review_is_refused(body: Any) -> None:
    with pytest.raises(MalformedReview):
        parse(body)


def test_the_response_admits_with_the_uid_and_the_warnings() -> None:
    request = parse(review(quota()))
    fine = answer(request, ())
    assert fine["response"] == {"uid": request.uid, "allowed": True}
    assert answer(request, ("w",))["response"] == {**fine["response"], "warnings": ["w"]}
