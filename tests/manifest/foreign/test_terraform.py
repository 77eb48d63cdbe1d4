"""kafka_quota resources in the JSON of a state or a plan."""

import json
from typing import Any

import pytest

from tests.manifest.foreign.import_results import limits, losses, problems, read, sample

P = "producer_byte_rate"
C = "consumer_byte_rate"


def shown(values: object, kind: str = "kafka_quota") -> str:
    resource = {"type": kind, "mode": "managed", "name": "q", "values": values}
    return json.dumps({"values": {"root_module": {"resources": [resource]}}})


def test_the_json_of_a_state_is_read_with_its_modules():
    result = read("terraform", sample("terraform.json"))
    assert limits(result) == {
        "user=<default>": {P: 1048576.0},
        "client-id=team-a/😀": {P: 1e7, "request_percentage": 12.5},
    }
    assert losses(result) == [(13, "leader_rate=1", "a quota key that manifests do not support")]


def test_the_json_of_a_plan_is_read():
    text = sample("terraform.json")[1].replace('"values": {"root', '"planned_values": {"root')
    assert len(limits(read("terraform", text))) == 2


@pytest.mark.parametrize("name", [{}, {"entity_name": None}, {"entity_name": ""}])
def test_an_empty_a_null_and_an_absent_name_are_the_default(name: dict[str, Any]):
    text = shown({**name, "entity_type": "user", "config": {P: 1024}})
    assert limits(read("terraform", text)) == {"user=<default>": {P: 1024.0}}


def test_a_composite_quota_is_a_pair_of_user_and_client():
    entities = [{"type": "client-id", "name": ""}, {"type": "user", "name": "u"}]
    text = shown({"entity": entities, "config": {C: 2048}}, "kafka_quota_composite")
    assert limits(read("terraform", text)) == {"user=u,client-id=<default>": {C: 2048.0}}


def stored(*quotas: tuple[str, list[dict[str, Any]]]) -> str:
    """A state file: provider and instances of each resource."""
    resources = [
        {"mode": "managed", "type": "kafka_quota", "name": "q", "provider": p, "instances": i}
        for p, i in quotas
    ]
    return json.dumps({"version": 4, "serial": 7, "resources": resources}, indent=1)


def instance(name: str, **more: object) -> dict[str, Any]:
    return {"attributes": {"entity_type": "user", "entity_name": name, "config": {P: 1024}}, **more}


def test_a_state_file_is_read_with_all_instances():
    instances = [instance("a", index_key="a"), instance("b", index_key="b")]
    text = stored(("kafka", [*instances, instance("old", deposed="0a1b")]))
    assert limits(read("terraform", text)) == {"user=a": {P: 1024.0}, "user=b": {P: 1024.0}}


def test_the_providers_of_a_state_file_are_never_mixed():
    text = stored(("kafka.east", [instance("a")]), ("kafka.west", [instance("b")]))
    (problem,) = problems("terraform", text)
    assert "several clusters (provider): kafka.east, kafka.west" in problem
    assert limits(read("terraform", text, cluster="kafka.west")) == {"user=b": {P: 1024.0}}


@pytest.mark.parametrize(
    ("values", "kind", "message"),
    [
        ({}, "confluent_kafka_client_quota", "confluent_kafka_client_quota q is not"),
        ({}, "kafka_quota_group", "kafka_quota_group q is not a supported resource"),
        (
            {"entity": [{"type": "user"}, {"type": "ip"}]},
            "kafka_quota_composite",
            "kafka_quota_composite needs two entities, one user and one client-id",
        ),
        ({"entity_name": "a"}, "kafka_quota", "entity_type is missing"),
        ({"entity_type": "group"}, "kafka_quota", "'group' is not an entity type"),
        ({"entity_type": "user", "config": {P: "fast"}}, "kafka_quota", "not a decimal number"),
        ({"entity_type": "user", "config": {P: -1}}, "kafka_quota", "must be greater than 0"),
    ],
)
def test_an_unsupported_resource_is_a_loss(values: object, kind: str, message: str):
    result = read("terraform", shown(values, kind))
    assert [message in loss.text for loss in result.losses] == [True]
    assert not result.declarations


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            'resource "kafka_quota" "q" {}',
            "f:1:1: not JSON; terraform show -json prints the resources of .tf files",
        ),
        (
            '{"version": 3, "serial": 7, "modules": []}',
            "f:1:1: neither what terraform show -json prints nor a state file of Terraform 0.12 or newer",
        ),
        ('{"values": ', "f:1:12: not JSON: it ends too early"),
        (shown({}, "kafka_topic"), "f:0:0: nothing about quotas as terraform writes them"),
    ],
)
def test_an_unreadable_text_is_an_error_with_its_place(text: str, problem: str):
    assert problems("terraform", text) == [problem]
