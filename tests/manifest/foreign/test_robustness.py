"""Foreign readers and broken input: every mutated text ends in declarations, remarks or the project's own error."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import KquotaError, ManifestErrors
from reconciler.manifest.foreign.tools import TOOLS, read_files
from tests.manifest.foreign.import_results import GOLDEN, read

SAMPLES = sorted(
    (tool, path.read_text(encoding="utf-8"))
    for path in GOLDEN.iterdir()
    if path.is_file()
    for tool in TOOLS
    if path.name.startswith(tool)
)


@st.composite
def mutations(draw: st.DrawFn) -> tuple[str, str]:
    """A sample of a tool, truncated, or with a part removed, doubled or replaced."""
    tool, text = draw(st.sampled_from(SAMPLES))
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 12)))
        piece = draw(
            st.sampled_from(
                [
                    "",
                    text[start:end] * 2,
                    *'{}[]()"\\=:,\n\t#-0e\x00é',
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


def test_every_tool_has_a_sample() -> None:
    assert {tool for tool, _ in SAMPLES} == set(TOOLS)


@pytest.mark.parametrize(("tool", "text"), SAMPLES)
def test_a_file_without_anything_of_the_tool_is_a_loss_beside_others(tool: str, text: str) -> None:
    cluster = "blue" if tool == "strimzi" else None
    empty = '{"values": {}}' if tool == "terraform" else ""
    alone = read_files(tool, [("f", text)], source_cluster=cluster)
    result = read_files(tool, [("f", text), ("other", empty)], source_cluster=cluster)
    assert result.declarations == alone.declarations
    assert [(loss.path, loss.text) for loss in set(result.losses) - set(alone.losses)] == [
        ("other", f"nothing about quotas as {tool} writes them")
    ]


@pytest.mark.parametrize("tool", ["jikkou", "strimzi"])
@pytest.mark.parametrize("kind", ["KafkaQuota", "ClientQuotaPolicy"])
def test_a_resource_of_another_kind_is_a_loss_if_its_kind_is_about_quotas(
    tool: str, kind: str
) -> None:
    text = f"apiVersion: example.com/v1\nkind: {kind}\nmetadata: {{name: a}}\n"
    (loss,) = read(tool, text + f"---\n{text.replace(kind, 'Topic')}").losses
    assert loss.text == f"{kind} a is not a supported resource; declare its quotas by hand"


@pytest.mark.parametrize("text", ["{" * 3000, '{"values": ' * 3000])
def test_a_too_deeply_nested_text_is_a_problem_with_its_place(text: str) -> None:
    with pytest.raises(ManifestErrors) as caught:
        read("terraform", text)
    assert caught.value.problems[0].path == "f"
