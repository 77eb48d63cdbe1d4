"""Jikkou's KafkaClientQuota resources."""

import pytest

from tests.manifest.foreign.import_results import limits, losses, problems, read, sample

P = "producer_byte_rate"
C = "consumer_byte_rate"


def resource(spec: str) -> str:
    return f"apiVersion: kafka.jikkou.io/v1\nkind: KafkaClientQuota\nspec: {spec}\n"


def test_every_type_is_imported_as_the_entity_that_jikkou_creates():
    result = read("jikkou", sample("jikkou.yaml"))
    assert limits(result) == {
        "user=billing,client-id=1e3": {"request_percentage": 12.5},
        'user="<default>",client-id=<default>': {"request_percentage": 25.0},
        "user=billing": {P: 10485760.0, C: 20971520.0},
        "user=<default>": {"request_percentage": 50.0},
        "client-id=probe": {P: 1024.0},
        "client-id=<default>": {C: 8192.0},
    }


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("{type: TEAM, entity: {user: a}}", "'TEAM' is not a quota type"),
        ("{entity: {user: a}}", "type is missing"),
        ("{type: USER}", "entity.user is missing"),
        ("{type: USER, entity: {user: null}}", "entity.user is missing"),
        ("{type: USER_CLIENT, entity: {user: a}}", "entity.clientId is missing"),
        ("{type: USER, entity: {user: ''}, configs: {producerByteRate: 1}}", "an empty user name"),
        ("{type: USER, entity: {user: on}}", "'on' is not a string in every"),
        ("{type: USER, entity: {user: '{{ values.user }}'}}", "a template"),
        (
            "{type: USER, entity: {user: a}, configs: {producerByteRate: 0}}",
            "must be greater than 0",
        ),
        (
            "{type: USER, entity: {user: a}, configs: {producerByteRate: 1.5}}",
            "must be a whole number",
        ),
        (
            "{type: USER, entity: {user: a}, configs: {producerByteRate: 017}}",
            "not a decimal number",
        ),
        (
            "{type: USER, entity: {user: a}, configs: {producerByteRate: 10Mi}}",
            "not a decimal number",
        ),
        (
            "{type: USER, entity: {user: a}, configs: {producerByteRate: 9007199254740993}}",
            "no exact float64",
        ),
        ("{type: USER, entity: {user: a}, configs: [1]}", "expected a mapping"),
        ("[]", "expected a mapping"),
    ],
)
def test_an_unsupported_resource_is_a_loss_at_its_line(spec, message):
    result = read("jikkou", resource(spec))
    assert [line for line, _, _ in losses(result)] == [3]
    assert message in losses(result)[0][2]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (resource("{type: [}"), "f:3:15: not YAML"),
        (resource("{}\nspec: {}"), "f:4:1: key 'spec' is given twice, first on line 3"),
        (resource("{<<: {type: USER}}"), "f:3:8: merge keys are not used in manifests"),
        ("apiVersion: v1\nkind: ConfigMap\n", "f:0:0: nothing about quotas as jikkou writes them"),
    ],
)
def test_an_unreadable_text_is_an_error_with_its_place(text, problem):
    assert [message[: len(problem)] for message in problems("jikkou", text)] == [problem]
