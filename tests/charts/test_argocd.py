"""Argo CD's health of the custom resources: its Lua runs our scripts on objects with conditions of the operator."""

import copy
import re
from typing import Any

import pytest

from tests.charts.argocd_patch import script
from tests.servers.kube import go_tools, programs

pytestmark = pytest.mark.integration

ACTIONS = programs.GoModule(
    name="actions", folder=programs.HERE.parents[1] / "charts" / "actions", packages=(".",)
)
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


def acted(name: str, obj: dict[str, Any]) -> Any:
    request = {"script": script(f"actions/{name}.lua"), "object": obj}
    return go_tools.ask(ACTIONS, request)


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
