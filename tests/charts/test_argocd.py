"""Argo CD's health of the custom resources: its Lua runs our scripts on objects with conditions of the operator."""

import copy
import re
from typing import Any

import pytest

from reconciler.kube.status.conditions import conditions
from reconciler.kube.status.reasons import Reason
from tests.charts.argocd_patch import script
from tests.servers.kube import go_tools, programs
from tests.servers.kube.lua import health

pytestmark = pytest.mark.integration

ACTIONS = programs.GoModule(
    name="actions", folder=programs.HERE.parents[1] / "charts" / "actions", packages=(".",)
)
HEALTH = script("health.lua")
QUOTA: dict[str, Any] = {
    "apiVersion": "kafka-quotas.io/v1alpha1",
    "kind": "ClientQuota",
    "metadata": {"name": "alice", "namespace": "payments", "generation": 3},
    "spec": {
        "clusterRef": {"name": "prod"},
        "entity": {"user": {"name": "alice"}},
        "limits": {"producerByteRate": 1},
    },
}


def written(reason: Reason, *, observed: int = 3, drifted: str = "") -> dict[str, Any]:
    """The resource with the status that the operator writes for a reason."""
    new_conditions = conditions(
        reason, "so it is", generation=3, previous=(), now=0.0, drifted=drifted, conflict=""
    )
    return {**QUOTA, "status": {"observedGeneration": observed, "conditions": new_conditions}}


def acted(name: str, obj: dict[str, Any]) -> Any:
    request = {"script": script(f"actions/{name}.lua"), "object": obj}
    return go_tools.ask(ACTIONS, request)


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_of_the_operator_has_the_health_of_its_row(reason: Reason) -> None:
    status, message = health(HEALTH, written(reason))
    assert status == reason.argo
    assert message == f"{reason}: so it is"


def test_a_resource_without_a_status_is_progressing() -> None:
    waiting = ("Progressing", "Waiting for the operator")
    assert health(HEALTH, QUOTA) == waiting
    assert health(HEALTH, {**QUOTA, "status": {}}) == waiting
    assert health(HEALTH, written(Reason.SYNCED, observed=2)) == waiting
    assert health(HEALTH, {**QUOTA, "status": {"observedGeneration": 3}}) == waiting


def test_the_status_of_an_older_generation_is_shown_as_progressing() -> None:
    for reason in (Reason.BROKER_REJECTED, Reason.SUSPENDED):
        assert health(HEALTH, written(reason, observed=2))[0] == "Progressing"


def test_drift_that_is_only_reported_shows_in_the_message_of_a_healthy_resource() -> None:
    obj = written(Reason.SYNCED, drifted="producer_byte_rate is 5")
    assert health(HEALTH, obj) == ("Healthy", "Drifted: producer_byte_rate is 5")


def test_a_resource_is_suspended_and_resumed_without_other_changes() -> None:
    frozen = acted("suspend", QUOTA)
    assert frozen == {**QUOTA, "spec": {**QUOTA["spec"], "suspend": True}}
    assert acted("resume", frozen) == QUOTA


def test_the_action_sets_the_annotation_that_the_operator_reads() -> None:
    annotated = acted("reconcile", QUOTA)
    stamp = annotated["metadata"].pop("annotations")
    assert annotated == QUOTA
    assert list(stamp) == ["kafka-quotas.io/requestedAt"]
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", stamp["kafka-quotas.io/requestedAt"])
    annotated_quota = copy.deepcopy(QUOTA)
    annotated_quota["metadata"]["annotations"] = {"a": "b"}
    assert acted("reconcile", annotated_quota)["metadata"]["annotations"]["a"] == "b"


@pytest.mark.parametrize(
    ("suspended", "offered"), [(False, {"suspend", "reconcile"}), (True, {"resume"})]
)
def test_only_actions_with_an_effect_are_offered(suspended: bool, offered: set[str]) -> None:
    obj = {**QUOTA, "spec": {**QUOTA["spec"], "suspend": suspended}}
    actions = acted("discovery", obj)
    assert set(actions) == {"suspend", "resume", "reconcile"}
    assert {name for name, action in actions.items() if not action["disabled"]} == offered


def test_a_quota_cluster_has_the_same_actions() -> None:
    cluster = {
        "kind": "QuotaCluster",
        "metadata": {"name": "prod"},
        "spec": {"bootstrapServers": "b:1"},
    }
    assert acted("suspend", cluster)["spec"]["suspend"] is True
