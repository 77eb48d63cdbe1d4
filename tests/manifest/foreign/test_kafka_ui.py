"""The list in responses of kafka-ui."""

import pytest

from tests.manifest.foreign.import_results import limits, losses, notes, problems, read, sample

P = "producer_byte_rate"
ALIKE = "several records are identical, because the response does not contain defaults"


def test_unambiguous_records_are_imported_and_possible_defaults_are_reported():
    result = read("kafka-ui", sample("kafka-ui.json"))
    assert limits(result) == {
        "user=billing,client-id=nightly": {P: 10485760.0, "request_percentage": 12.5},
        "user=reports": {"consumer_byte_rate": 8192.0},
        "ip=10.0.0.7": {"connection_creation_rate": 20.0},
    }
    assert notes(result) == [
        (3, "imported unchanged; kafka-ui shows the same if the other part is a default")
    ]


def test_ambiguous_records_are_losses():
    assert losses(read("kafka-ui", sample("kafka-ui.json"))) == [
        (4, "", ALIKE),
        (5, "", ALIKE),
        (6, "", "a default of some type; the answer does not say of which"),
    ]


def test_unusual_names_and_the_name_default_are_names():
    text = '[{"user": "<default>", "clientId": "a\\u0000\\ud83d\\ude00\\"", "quotas": {"producer_byte_rate": 1024}}]'
    result = read("kafka-ui", text)
    assert [declaration.entity for declaration in result.declarations] == [
        ("<default>", 'a\x00😀"', False)
    ]
    assert len(limits(result)) == 1


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (
            '{"user": "", "clientId": "b", "quotas": {"producer_byte_rate": 1024}}',
            "an empty user name",
        ),
        (
            '{"user": "a", "ip": "::1", "quotas": {"producer_byte_rate": 1024}}',
            "ip cannot be combined",
        ),
        ('{"user": true, "quotas": {}}', "'true' is not a string"),
        ('{"user": ["a"]}', "expected a scalar"),
        (
            '{"user": "a", "clientId": "b", "quotas": {"odd_rate": 1}}',
            "a quota key that manifests do not support",
        ),
        (
            '{"user": "a", "clientId": "b", "quotas": {"producer_byte_rate": "NaN"}}',
            "not a decimal number",
        ),
        (
            '{"user": "a", "clientId": "b", "quotas": {"producer_byte_rate": 1e999}}',
            "must be a finite number",
        ),
        ('{"user": "a", "clientId": "b", "quotas": [1]}', "expected a mapping"),
        ("7", "expected a mapping"),
    ],
)
def test_an_unsupported_record_is_a_loss_at_its_line(record, message):
    result = read("kafka-ui", f"[\n{record}\n]")
    assert [line for line, _, _ in losses(result)] == [2]
    assert message in losses(result)[0][2]
    assert not result.declarations


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"code": 4001}', "f:1:1: expected a list"),
        ("[]", "f:0:0: nothing about quotas as kafka-ui writes them"),
        ("[1,]", "f:1:4: not JSON: a value is missing"),
        ("<html>", "f:1:1: expected a list"),
    ],
)
def test_a_response_that_is_not_a_list_is_an_error_with_its_place(text, problem):
    assert problems("kafka-ui", text) == [problem]
