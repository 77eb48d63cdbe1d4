"""The output of rpk cluster quotas describe."""

import pytest

from tests.manifest.foreign.import_results import losses, notes, problems, read, sample


def test_a_default_that_may_be_a_name_is_reported():
    result = read("rpk", sample("rpk.json"))
    assert notes(result) == [
        (4, "rpk prints a default and the name <default> alike; taken for the default")
    ]


def quota(entity: str, values: str = '[{"key": "producer_byte_rate", "value": "1024"}]') -> str:
    return f'{{"quotas": [\n{{"entity": {entity}, "values": {values}}}]}}'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (quota("[]"), "an entity needs a user"),
        (quota('[{"name": "a"}]'), "type is missing"),
        (quota('[{"type": "user"}]'), "name is missing"),
        (
            quota('[{"name": "a", "type": "user"}, {"name": "b", "type": "user"}]'),
            "an entity type is given twice",
        ),
        (
            quota('[{"name": "a", "type": "user"}, {"name": "::1", "type": "ip"}]'),
            "ip cannot be combined",
        ),
        (quota('[{"name": "", "type": "user"}]'), "an empty user name"),
        (quota('[{"name": "\\ud800", "type": "user"}]'), "not Unicode text"),
        (quota('{"user": "a"}'), "expected a list"),
        (quota('[{"name": ["a"], "type": "user"}]'), "expected a scalar"),
        (
            quota(
                '[{"name": "a", "type": "user"}]', '[{"key": "producer_byte_rate", "value": "NaN"}]'
            ),
            "not a decimal",
        ),
        (
            quota('[{"name": "a", "type": "user"}]', '[{"key": "producer_byte_rate"}]'),
            "value is missing",
        ),
        (
            quota('[{"name": "a", "type": "user"}]', '[{"key": "odd", "value": "1"}]'),
            "a key that manifests do not",
        ),
    ],
)
def test_an_unsupported_quota_is_a_loss_at_its_place(text, message):
    result = read("rpk", text)
    assert [line for line, _, _ in losses(result)] == [2]
    assert message in losses(result)[0][2]
    assert not result.declarations


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "f:1:2: not JSON: a key in double quotes is missing"),
        ("user=alice\n\tproducer_byte_rate=1024\n", "f:1:1: expected a mapping"),
        ('{"entries": []}', "f:1:1: quotas is missing"),
        ('{"quotas": {}}', "f:1:12: expected a list"),
        ("{}", "f:0:0: nothing about quotas as rpk writes them"),
    ],
)
def test_text_in_another_format_than_that_of_rpk_is_an_error_with_its_place(text, problem):
    assert problems("rpk", text) == [problem]
