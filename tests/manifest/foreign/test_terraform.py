"""kafka_quota resources, in HCL or in JSON."""

import pytest

from tests.manifest.foreign.import_results import limits, losses, notes, problems, read, sample

P = "producer_byte_rate"
C = "consumer_byte_rate"


def quota(body: str, name: str = "q") -> str:
    return f'resource "kafka_quota" "{name}" {{\n{body}\n}}\n'


def test_literal_resources_among_everything_else_are_read():
    result = read("terraform", sample("terraform.tf"))
    assert limits(result) == {
        'user="<default>${x}é"': {P: 1024.0},
        "user=billing": {P: 1048576.0, C: 2097152.0, "request_percentage": 12.5},
        "client-id=<default>": {C: 8192.0},
        "ip=10.0.0.7": {"connection_creation_rate": 20.0},
    }
    assert notes(result) == []


def test_expressions_of_terraform_are_listed_with_their_line():
    assert losses(read("terraform", sample("terraform.tf"))) == [
        (39, "", "var.burst would have to be evaluated; terraform show -json has it expanded"),
        (50, "", "kafka_quota.teams is made by for_each; terraform show -json has it expanded"),
    ]


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


def test_an_empty_a_null_and_an_absent_name_are_the_default():
    for name in ('entity_name = ""\n', "entity_name = null\n", ""):
        result = read(
            "terraform", quota(f'{name}entity_type = "user"\nconfig = {{ "{P}" = 1024 }}')
        )
        assert limits(result) == {"user=<default>": {P: 1024.0}}


def test_resources_of_several_providers_are_never_mixed():
    body = f'entity_type = "user"\nconfig = {{ "{P}" = 1024 }}\nprovider = kafka.'
    text = quota(body + "east") + quota(body.replace("1024", "2048") + "west", "w")
    assert problems("terraform", text) == [
        "f:1:0: the quotas are for several clusters (provider): kafka.east, kafka.west"
    ]
    assert limits(read("terraform", text, cluster="kafka.west")) == {"user=<default>": {P: 2048.0}}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('entity_name = "a"', "kafka_quota.q has no entity_type"),
        ('entity_type = "group"', "'group' is not an entity type"),
        ("entity_type = var.type", "var.type would have to be evaluated"),
        (
            'entity_type = "user"\nentity_name = "a-${terraform.workspace}"',
            "template would have to be evaluated",
        ),
        ('entity_type = "user"\nentity_name = upper("a")', "would have to be evaluated"),
        (
            'entity_type = "user"\nconfig = merge(local.a, { x = 1 })',
            "config would have to be evaluated",
        ),
        (
            'entity_type = "user"\nconfig = { for k in local.a : k => 1 }',
            "config would have to be evaluated",
        ),
        (
            'entity_type = "user"\nconfig = { producer_byte_rate = 2 * 512 }',
            "2 * 512 would have to be evaluated",
        ),
        ('entity_type = "user"\nconfig = { producer_byte_rate = "fast" }', "not a decimal number"),
        ('entity_type = "user"\nconfig = { producer_byte_rate = -1 }', "must be greater than 0"),
        (
            'entity_type = "ip"\nentity_name = "host.example"\nconfig = { connection_creation_rate = 1 }',
            "not an IP address",
        ),
        ('count = 2\nentity_type = "user"', "kafka_quota.q is made by count"),
        ('entity_type = "user"\ndynamic "config" {\n}', "has a dynamic block"),
    ],
)
def test_an_unsupported_resource_is_a_loss_with_its_line(body, message):
    result = read("terraform", quota(body))
    assert [message in loss.text for loss in result.losses] == [True]
    assert 1 <= result.losses[0].line <= 4
    assert not result.declarations


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('resource "kafka_quota" "q" {', "f:1:0: not HCL: a name is missing"),
        ('resource "kafka_quota" "q" { a = "x\n" }', "f:1:0: not HCL: a string does not end"),
        ('resource "kafka_quota" "q" {\na = 1\na = 2 }', "f:3:0: not HCL: a is given twice"),
        ('variable "a" {\n  x = [1, 2}\n', "f:2:0: not HCL: unmatched }"),
        ("a = <<EOT\nnever\n", "f:1:0: not HCL: the heredoc EOT does not end"),
        ("§", "f:1:0: not HCL: unexpected '§'"),
        ('variable "a" {}\n', "f:0:0: nothing about quotas as terraform writes them"),
        (
            '{"version": 4, "serial": 7, "resources": []}',
            "f:1:1: not what terraform show -json prints: it has no values",
        ),
        ('{"values": ', "f:1:12: not JSON: it ends too early"),
    ],
)
def test_an_unreadable_text_is_an_error_with_its_place(text, problem):
    assert problems("terraform", text) == [problem]
