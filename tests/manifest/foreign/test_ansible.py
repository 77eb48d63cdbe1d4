"""Tasks of the Ansible module kafka_quotas."""

import pytest

from tests.manifest.foreign.import_results import limits, losses, notes, problems, read, sample

P = "producer_byte_rate"
C = "consumer_byte_rate"


def task(entry: str, more: str = "") -> str:
    return f"- name: quotas\n  kafka_quotas:\n    entries:\n      - {entry}\n{more}"


def test_tasks_are_found_in_plays_and_blocks_and_their_defaults_are_default_entities():
    result = read("ansible", sample("ansible.yaml"))
    assert limits(result) == {
        "user=billing,client-id=<default>": {"request_percentage": 25.5},
        "user=<default>,client-id=probe": {C: 8192.0},
        "user=<default>": {P: 1044050.0, "request_percentage": 65.0},
        "client-id=4711": {P: 1024.0},
        "client-id=<default>": {C: 16384.0},
    }
    assert losses(result) == [
        (25, "controller_mutation_rate=5", "the tool has no such limit"),
        (26, "", "a template; let Ansible expand it first"),
    ]
    assert notes(result) == [(30, "the task has a condition, which is ignored (assumed true)")]


def test_the_module_may_be_called_through_action():
    text = "- local_action:\n    module: kafka_quotas\n    entries:\n      - {entity: {user: a}, quotas: {producer_byte_rate: 1024}}\n"
    assert limits(read("ansible", text)) == {"user=a": {P: 1024.0}}


def test_a_loop_is_reported():
    result = read("ansible", task("{entity: {user: '{{ item }}'}, quotas: {}}", "  loop: [a, b]\n"))
    assert notes(result) == [(5, "the task has loop, which only Ansible can expand")]
    assert losses(result) == [(4, "", "a template; let Ansible expand it first")]


def test_unusual_names_are_imported_as_names():
    for name in ("CN=a,O=b", "a'b", "%3Cdefault%3E", "ünïcødé", "default"):
        text = task(f'{{entity: {{user: "{name}"}}, quotas: {{producer_byte_rate: 1024}}}}')
        result = read("ansible", text)
        assert [declaration.entity[0] for declaration in result.declarations] == [name]
        assert len(limits(result)) == 1


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("{entity: {user: on}, quotas: {}}", "'on' is not a string in every"),
        ("{entity: {}, quotas: {producer_byte_rate: 1}}", "an entity needs a user"),
        ("{entity: {user: ''}, quotas: {producer_byte_rate: 1}}", "an entity needs a user"),
        ("{entity: {ip: '::1'}, quotas: {}}", "the module has no entity type ip"),
        ("{quotas: {}}", "entity is missing"),
        ("{entity: {user: a}, quotas: {producer_byte_rate: '{{ rate }}'}}", "not a decimal number"),
        ("{entity: {user: a}, quotas: {producer_byte_rate: 1_000}}", "not a decimal number"),
        ("{entity: {user: a}, quotas: []}", "expected a mapping"),
        ("just words", "expected a mapping"),
    ],
)
def test_an_unsupported_entry_is_a_loss_at_its_line(entry, message):
    result = read("ansible", task(entry))
    assert [line for line, _, _ in losses(result)] == [4]
    assert message in losses(result)[0][2]


def test_entries_that_are_a_template_are_a_loss():
    result = read("ansible", "- kafka_quotas:\n    entries: '{{ quotas }}'\n")
    assert losses(result) == [
        (2, "", "entries is not a list; if it is a template, let Ansible expand it first")
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("- name: x\n  debug: {msg: y}\n", "f:0:0: nothing about quotas as ansible writes them"),
        ("- kafka_quotas: {password: !vault x}\n", "f:1:28: tags are not used in manifests"),
        ("- kafka_quotas: {entries: {{ x }}}\n", "f:1:28: a key must be a plain name"),
        ("- a: b\n c: d\n", "f:2:2: not YAML"),
    ],
)
def test_an_unreadable_text_is_an_error_with_its_place(text, problem):
    assert [message[: len(problem)] for message in problems("ansible", text)] == [problem]
