"""Responses to admission requests: denied only with the broker's own message, otherwise a warning."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from reconciler.errors import AuthenticationError, ConfigError, RequestTimeout
from reconciler.kube.admission.review import (
    LONGEST_WARNING,
    MOST_WARNINGS,
    AdmissionDecision,
    MalformedReview,
    answer,
    decide,
    parse,
)
from reconciler.kube.api.custom_resources import Resource
from reconciler.manifest.project.cluster import QuotaCluster, from_spec
from reconciler.quota.outcome import Alteration, Rejected
from reconciler.quota.results.report import ValidationResult
from tests.kube.reviews import quota, review
from tests.kube.worlds import seen

BROKER = ValidationResult(source="broker")


class FakeBroker:
    """A broker with configured responses."""

    def __init__(self, verdict: ValidationResult | Exception = BROKER, **spec: Any) -> None:
        self.asked: list[Alteration] = []
        self.labels: dict[str, dict[str, str]] | Exception = {}
        self._verdict = verdict
        self._spec = spec

    async def clusters(self) -> dict[str, Resource]:
        if isinstance(self.labels, Exception):
            raise self.labels
        return {name: Resource(name=name, labels=labels) for name, labels in self.labels.items()}

    async def cluster(self, name: str) -> QuotaCluster | None:
        if name == "broken":
            raise ConfigError("planted: 10.0.0.1 of the operator")
        if name == "missing":
            return None
        return from_spec(name, {"bootstrapServers": "broker:9092", **self._spec})

    async def ask(
        self, cluster: QuotaCluster, alterations: Sequence[Alteration]
    ) -> ValidationResult:
        self.asked += alterations
        if isinstance(self._verdict, Exception):
            raise self._verdict
        return self._verdict


def decided(obj: dict[str, Any], broker: FakeBroker | None = None) -> AdmissionDecision:
    request = parse(review(obj))
    assert request.obj is not None
    return asyncio.run(decide(seen(request.obj), broker or FakeBroker()))


def refused(obj: dict[str, Any], message: str, source: str = "broker") -> ValidationResult:
    subject = (obj["metadata"]["name"], False, False)
    rejection = Rejected(code=42, name="INVALID_REQUEST", message=message)
    return ValidationResult(source=source, rejections={subject: rejection})


def test_a_document_that_the_broker_accepts_is_admitted_without_a_message() -> None:
    broker = FakeBroker()
    assert decided(quota(), broker) == AdmissionDecision()
    (alteration,) = broker.asked
    assert alteration.operations == (("producer_byte_rate", 1048576.0),)


def test_a_document_that_the_broker_rejects_is_denied_with_its_message_on_one_line() -> None:
    obj = quota()
    decision = decided(obj, FakeBroker(refused(obj, "No such\nquota \x1b[31m")))
    assert decision.denied == (
        "the broker refuses user=alice: No such quota \\u001b[31m (INVALID_REQUEST)"
    )


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (
            {"limits": {"producerByteRate": 10}},
            "producerByteRate 10 B/s is below 1024 (1 KiB/s): a wrong unit?",
        ),
        ({"entity": {"user": {"default": True}}}, "create on a default entity affects every"),
    ],
)
def test_what_a_guard_refuses_whatever_is_live_is_a_warning(
    spec: dict[str, Any], text: str
) -> None:
    decision = decided(quota(**spec))
    assert not decision.denied
    assert decision.warnings[0].startswith(f"a guard will refuse it: {text}")
    assert decided(quota(**spec), FakeBroker(suspend=True)).warnings == ()


def test_a_denial_by_rules_names_their_version_line() -> None:
    obj = quota()
    decision = decided(obj, FakeBroker(refused(obj, "too small", "sandbox 4.x")))
    assert decision.denied.startswith("Kafka (sandbox 4.x) refuses user=alice: too small")


@pytest.mark.parametrize(
    ("broker", "text"),
    [
        (FakeBroker(RequestTimeout("10.1.2.3 is away", phase="connect")), "it is unreachable"),
        (FakeBroker(AuthenticationError("wrong password of bob")), "it is unreachable"),
        (
            FakeBroker(ValidationResult(source="sandbox 4.x", reason="we may not (AlterConfigs)")),
            "because we may not (AlterConfigs); sandbox 4.x accepts it",
        ),
        (
            FakeBroker(ValidationResult(source="broker", reason="no answer")),
            "gave no verdict: no answer",
        ),
        (
            FakeBroker(ValidationResult(source="none", reason="it is another one")),
            "because it is another one",
        ),
    ],
)
def test_a_check_that_was_skipped_is_a_warning(broker: FakeBroker, text: str) -> None:
    decision = decided(quota(), broker)
    assert decision.denied == ""
    assert any(text in warning for warning in decision.warnings)
    assert not any("10.1.2.3" in warning or "bob" in warning for warning in decision.warnings)


@pytest.mark.parametrize(
    ("cluster", "text"),
    [
        ("missing", "QuotaCluster missing does not exist yet"),
        ("broken", "QuotaCluster broken is invalid"),
    ],
)
def test_a_cluster_that_cannot_be_used_is_a_warning_without_its_secrets(
    cluster: str, text: str
) -> None:
    decision = decided(quota(cluster=cluster))
    assert decision.denied == ""
    assert text in decision.warnings[0]
    assert "10.0.0.1" not in decision.warnings[0]


def test_a_document_without_a_grant_is_admitted_with_a_warning_and_the_broker_is_not_contacted() -> (
    None
):
    broker = FakeBroker(
        tenants=[{"namespaces": ["others"], "entities": [{"user": {"exact": "bob"}}]}]
    )
    decision = decided(quota(), broker)
    assert decision.denied == ""
    assert decision.warnings[0].startswith("it will not be applied: ")
    assert broker.asked == []


def test_a_document_with_unknown_fields_is_admitted_with_a_warning() -> None:
    decision = decided(quota(limits={"producerByteRate": 1, "fromTheFuture": 2}))
    assert decision.denied == ""
    assert decision.warnings[0].startswith("it will not be applied: ")


def test_doubtful_rules_cause_warnings() -> None:
    obj = quota(entity={"user": {"name": "User:alice"}})
    assert any("matches no client" in warning for warning in decided(obj).warnings)


def test_the_number_and_length_of_warnings_is_limited() -> None:
    cluster = {"ip": {"name": "10.0.0.1"}}
    long = FakeBroker(ValidationResult(source="broker", reason="x" * 5000))
    decision = decided(quota(entity=cluster, limits={"connectionCreationRate": 5}), long)
    assert len(decision.warnings) <= MOST_WARNINGS
    assert all(len(warning) <= LONGEST_WARNING for warning in decision.warnings)


def test_a_document_without_a_name_is_validated() -> None:
    obj = quota()
    del obj["metadata"]["name"], obj["metadata"]["namespace"]
    obj["metadata"]["generateName"] = "alice-"
    assert decided(obj) == AdmissionDecision()


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


def test_the_response_has_the_uid_and_a_status_only_if_denied() -> None:
    request = parse(review(quota()))
    fine = answer(request, AdmissionDecision())
    assert fine["response"] == {"uid": request.uid, "allowed": True}
    denied = answer(request, AdmissionDecision(denied="no", warnings=("w",)))["response"]
    assert denied["allowed"] is False
    assert denied["status"]["message"] == "no"
    assert denied["warnings"] == ["w"]


EUROPE = {"eu-1": {"region": "eu"}, "eu-2": {"region": "eu"}, "us-1": {"region": "us"}}


def selecting(**spec: Any) -> dict[str, Any]:
    obj = quota()
    del obj["spec"]["clusterRef"]
    obj["spec"] |= {"clusterSelector": {"matchLabels": {"region": "eu"}}, **spec}
    return obj


def fleet(labels: Any = EUROPE, *verdict: Any) -> FakeBroker:
    broker = FakeBroker(*verdict)
    broker.labels = labels
    return broker


def test_every_selected_cluster_is_validated_with_its_own_values() -> None:
    broker = fleet()
    limits = {"clusterRef": {"name": "eu-2"}, "limits": {"producerByteRate": 4096}}
    assert decided(selecting(clusterLimits=[limits]), broker) == AdmissionDecision()
    assert sorted(
        dict(alteration.operations)["producer_byte_rate"] for alteration in broker.asked
    ) == [4096.0, 1048576.0]


def test_a_rejection_by_one_cluster_denies_the_document_and_names_the_cluster() -> None:
    obj = selecting()
    decision = decided(obj, fleet({"eu-1": {"region": "eu"}}, refused(obj, "no")))
    assert decision.denied.startswith("eu-1: the broker refuses")


def test_a_cluster_that_cannot_be_used_is_a_warning_with_its_name() -> None:
    decision = decided(selecting(), fleet({"broken": {"region": "eu"}, "eu-1": {"region": "eu"}}))
    assert decision.denied == ""
    assert [warning.partition(":")[0] for warning in decision.warnings] == ["broken"]


def test_a_document_that_selects_no_cluster_is_a_warning() -> None:
    decision = decided(selecting(), fleet({}))
    assert decision.warnings == ("clusterSelector region=eu selects no QuotaCluster",)


def test_clusters_that_cannot_be_listed_are_a_warning() -> None:
    decision = decided(selecting(), fleet(AuthenticationError("planted")))
    assert decision.warnings == ("QuotaClusters cannot be listed, so no broker validated this",)


def test_at_most_sixteen_of_many_clusters_are_validated() -> None:
    broker = fleet({f"c{number}": {"region": "eu"} for number in range(20)})
    decision = decided(selecting(), broker)
    assert len(broker.asked) == 16
    assert decision.warnings == ("the brokers of 4 more clusters did not validate this",)
