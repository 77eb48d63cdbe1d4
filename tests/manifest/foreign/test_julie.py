"""The quotas of JulieOps descriptors."""

import pytest

from tests.manifest.foreign.import_results import limits, losses, notes, problems, read, sample

P = "producer_byte_rate"


def descriptor(quota: str) -> str:
    return f"context: c\nplatform:\n  kafka:\n    quotas:\n      - {quota}\n"


def test_principals_are_imported_as_in_the_cluster_and_an_empty_one_is_the_default():
    result = read("julie", sample("julie.yaml"))
    assert limits(result) == {
        "user=User:App0": {P: 1024.0, "consumer_byte_rate": 1024.0, "request_percentage": 50.0},
        "user=billing": {P: 2048.0},
        "user=<default>": {"request_percentage": 80.5},
    }
    assert losses(result) == [(18, "controller_mutation_rate=5", "the tool has no such limit")]


def test_a_prefix_that_limits_no_client_is_reported():
    ((line, text),) = notes(read("julie", sample("julie.yaml")))
    assert line == 12
    assert "limits no client" in text


def test_a_user_named_default_in_angle_brackets_is_a_name():
    result = read("julie", descriptor('{principal: "<default>", producer_byte_rate: 1024}'))
    assert limits(result) == {'user="<default>"': {P: 1024.0}}


def test_a_descriptor_in_json_is_read():
    text = '{"context": "c", "platform": {"kafka": {"quotas": [{"principal": "a\\/b", "producer_byte_rate": 1.024E3}]}}}'
    assert limits(read("julie", text)) == {"user=a/b": {P: 1024.0}}


@pytest.mark.parametrize(
    ("quota", "message"),
    [
        ("{producer_byte_rate: 1024}", "principal is missing"),
        ("{principal: null, producer_byte_rate: 1024}", "principal is missing"),
        ("{principal: off, producer_byte_rate: 1024}", "'off' is not a string"),
        ('{principal: "${APP}", producer_byte_rate: 1024}', "a placeholder"),
        ("{principal: a, producer_byte_rate: -1}", "must be greater than 0"),
        ("{principal: a, producer_byte_rate: 1.5}", "must be a whole number"),
        ("{principal: a, request_percentage: .nan}", "not a decimal number"),
        ("words", "expected a mapping"),
    ],
)
def test_an_unsupported_quota_is_a_loss_at_its_line(quota, message):
    result = read("julie", descriptor(quota))
    assert [line for line, _, _ in losses(result)] == [5]
    assert message in losses(result)[0][2]


def test_a_section_with_another_structure_is_a_loss():
    assert losses(read("julie", "platform: [kafka]\n")) == [(1, "", "expected a mapping")]
    assert losses(read("julie", "platform: {kafka: {quotas: 7}}\n")) == [(1, "", "expected a list")]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("context: c\nprojects: []\n", "f:0:0: nothing about quotas as julie writes them"),
        ("context: 'c\n", "f:2:1: not YAML"),
    ],
)
def test_a_text_without_quotas_or_invalid_yaml_is_an_error(text, problem):
    assert [message[: len(problem)] for message in problems("julie", text)] == [problem]
