"""Strimzi's KafkaUser and Kafka resources."""

import pytest

from tests.manifest.foreign.import_results import limits, losses, notes, problems, read, sample

P = "producer_byte_rate"
C = "consumer_byte_rate"


def user(quotas: str, more: str = "", labels: str = "{}") -> str:
    return (
        f"apiVersion: kafka.strimzi.io/v1\nkind: KafkaUser\nmetadata: {{name: a, labels: {labels}}}\n"
        f"spec:\n  quotas: {quotas}\n{more}"
    )


def test_users_with_certificates_are_named_cn_and_the_default_is_in_the_kafka_resource():
    result = read("strimzi", sample("strimzi.yaml"), cluster="blue")
    assert limits(result) == {
        "user=CN=billing": {
            P: 1048576.0,
            C: 2097152.0,
            "request_percentage": 55.0,
            "controller_mutation_rate": 10.5,
        },
        "user=reports": {C: 4096.0},
        "user=<default>": {P: 1000000.0, "request_percentage": 50.0},
    }
    ((line, limit, reason),) = losses(result)
    assert (line, limit) == (28, f"{P}=0")
    assert "greater than 0; omit it for no limit (0 is not that: brokers " in reason
    assert notes(result) == []


def test_limits_of_strimzis_own_plugin_are_not_client_quotas():
    result = read("strimzi", sample("strimzi.yaml"), cluster="green")
    assert not result.declarations
    assert losses(result) == [
        (
            56,
            "",
            "quotas of type 'strimzi' belong to a plugin of the broker; Kafka has no such limits",
        )
    ]


def test_resources_of_several_clusters_are_never_mixed():
    assert problems("strimzi", sample("strimzi.yaml")) == [
        "strimzi.yaml:1:0: the quotas are for several clusters (Strimzi cluster): blue, green"
    ]
    assert problems("strimzi", sample("strimzi.yaml"), cluster="red") == [
        "strimzi.yaml:1:0: there is no Strimzi cluster 'red'; there is blue, green"
    ]


def test_a_list_from_kubectl_is_read_in_json_and_yaml():
    text = (
        '{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "kafka.strimzi.io/v1", "kind": "KafkaUser", '
        '"metadata": {"name": "a"}, "spec": {"quotas": {"producerByteRate": 2048, "requestPercentage": null}}}]}'
    )
    assert limits(read("strimzi", text)) == {"user=a": {P: 2048.0}}


def test_a_user_without_authentication_or_with_scram_keeps_its_name():
    result = read(
        "strimzi", user("{producerByteRate: 2048}", "  authentication: {type: scram-sha-512}\n")
    )
    assert limits(result) == {"user=a": {P: 2048.0}}
    result = read(
        "strimzi", user("{producerByteRate: 2048}", "  authentication: {type: tls-external}\n")
    )
    assert limits(result) == {"user=CN=a": {P: 2048.0}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (user("{producerByteRate: 0x10}"), "not a decimal number"),
        (user("{networkByteRate: 1024}"), "the tool has no such limit"),
        (user("[]"), "expected a mapping"),
        (user("{producerByteRate: [1]}"), "expected a scalar"),
        (user("{producerByteRate: -5}"), "must be greater than 0"),
        (user("{requestPercentage: 1}", labels="[]"), "expected a mapping"),
        (user("{requestPercentage: 1}", "  authentication: {type: {}}\n"), "expected a scalar"),
        (user("{requestPercentage: 1}").replace("name: a", "title: a"), "name is missing"),
        (user("{requestPercentage: 1}").replace("name: a", "name: yes"), "'yes' is not a string"),
    ],
)
def test_an_unsupported_resource_is_a_loss_with_its_line(text, message):
    result = read("strimzi", text)
    assert len(result.losses) == 1
    assert message in result.losses[0].text
    assert result.losses[0].line in (3, 5, 6)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("apiVersion: v1\nkind: Secret\n", "f:0:0: nothing about quotas as strimzi writes them"),
        ("- just\n- a list\n", "f:0:0: nothing about quotas as strimzi writes them"),
        ("kind: KafkaUser\napiVersion: !!str kafka.strimzi.io/v1\n", "f:2:13: tags are not used"),
        ("kind: 'KafkaUser\n", "f:2:1: not YAML"),
    ],
)
def test_a_text_without_quotas_or_invalid_yaml_is_an_error(text, problem):
    assert [message[: len(problem)] for message in problems("strimzi", text)] == [problem]


def test_an_empty_section_of_quotas_declares_nothing():
    result = read("strimzi", user("{}"))
    assert notes(result) == [(5, "no limits, so there is nothing to declare")]
