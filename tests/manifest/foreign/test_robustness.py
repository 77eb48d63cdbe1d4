"""Foreign readers and broken input: every mutated text ends in declarations, remarks or the project's own error."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import KquotaError, ManifestErrors
from reconciler.manifest.foreign.tools import TOOLS, read_files
from tests.manifest.foreign.import_results import GOLDEN, limits, losses, problems, read

SAMPLES = sorted(
    (tool, path.read_text(encoding="utf-8"))
    for path in GOLDEN.iterdir()
    if path.is_file()
    for tool in TOOLS
    if path.name.startswith(tool)
)
COMPOSITE = """
resource "kafka_quota_composite" "pair" {
  entity {
    type = "user"
  }
  entity {
    type = "client-id"
    name = "app"
  }
  config = {
    "producer_byte_rate" = 1024
  }
}
"""


@st.composite
def mutations(draw: st.DrawFn) -> tuple[str, str]:
    """A sample of a tool, truncated, or with a part removed, doubled or replaced."""
    tool, text = draw(st.sampled_from([*SAMPLES, ("terraform", COMPOSITE)]))
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 12)))
        piece = draw(
            st.sampled_from(
                [
                    "",
                    text[start:end] * 2,
                    *'{}[]()"\\=:,\n\t#-0e\x00é',
                    "${",
                    "<<E",
                    "null",
                    "1e999",
                    "- ",
                    "&a",
                    "*a",
                    "NaN",
                ]
            )
        )
        text = text[:start] + piece + (text[end:] if draw(st.integers(0, 4)) else "")
    return tool, text


@given(mutations())
def test_mutated_input_raises_only_errors_of_kquota(mutation: tuple[str, str]) -> None:
    tool, text = mutation
    with contextlib.suppress(KquotaError):
        _ = read_files(tool, [("f", text)])


def test_most_tools_have_samples() -> None:
    assert len({tool for tool, _ in SAMPLES}) >= 5


@pytest.mark.parametrize(
    "text",
    [
        'resource "kafka_quota" "x" { a = {',
        'resource "kafka_quota" "x" { a = { b =',
        'resource "kafka_quota" "x" {',
        'resource "kafka_quota" "x" { a = -',
        'resource "kafka_quota" "x"',
        "resource",
        'resource "kafka_quota_composite" "x" { entity {',
        'resource "kafka_quota" "x" { a = ' + "{ b = " * 3000,
        'resource "kafka_quota" "x" { a = ' + "{ b = " * 3000 + "1" + " }" * 3000 + " }",
        'resource "kafka_quota" "x" { a = ' + '"${' * 3000,
        "{" * 3000,
        '{"values": ' * 3000,
    ],
)
def test_a_truncated_or_too_deeply_nested_text_is_a_problem_with_its_place(text: str) -> None:
    with pytest.raises(ManifestErrors) as caught:
        read("terraform", text)
    assert caught.value.problems[0].path == "f"


def test_a_composite_quota_is_a_pair_of_user_and_client() -> None:
    assert limits(read("terraform", COMPOSITE)) == {
        "user=<default>,client-id=app": {"producer_byte_rate": 1024.0}
    }


def test_a_composite_quota_is_read_from_json_too() -> None:
    text = """{"values": {"root_module": {"resources": [
      {"type": "kafka_quota_composite", "mode": "managed", "name": "pair", "values": {
        "entity": [{"type": "client-id", "name": ""}, {"type": "user", "name": "u"}],
        "config": {"consumer_byte_rate": 2048}}}]}}}"""
    assert limits(read("terraform", text)) == {
        "user=u,client-id=<default>": {"consumer_byte_rate": 2048.0}
    }


def test_a_composite_quota_without_its_two_entities_is_reported() -> None:
    text = COMPOSITE.replace('"client-id"', '"ip"')
    assert losses(read("terraform", text)) == [
        (2, "", "kafka_quota_composite needs two entities, one user and one client-id")
    ]


def test_every_other_type_of_quota_resource_is_reported_and_never_ignored() -> None:
    words = "kafka_quota_group.x is not a supported type; declare its quotas by hand"
    assert losses(read("terraform", 'resource "kafka_quota_group" "x" {\n}\n')) == [(1, "", words)]
    displayed_text = """{"values": {"root_module": {"resources": [
      {"type": "kafka_quota_group", "mode": "managed", "name": "x", "values": {}}]}}}"""
    assert [text for _, _, text in losses(read("terraform", displayed_text))] == [words]


def test_resources_of_other_types_are_not_quotas() -> None:
    assert problems("terraform", 'resource "kafka_topic" "x" {\n}\n')
