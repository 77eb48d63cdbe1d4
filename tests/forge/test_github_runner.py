"""Files of the GitHub runner: outputs that cannot be forged, one annotation per command, a bounded summary."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import UsageError
from reconciler.forge.github_runner import (
    annotation_lines,
    room_in,
    write_outputs,
    write_summary,
)
from reconciler.render.source_findings import SourceFinding

HOSTILE = "x\n::set-output name=digest::evil\n::error::gone\n##[add-mask]x%0A\u202e\r\n"


def read_outputs(text: str) -> dict[str, str]:
    """The outputs as the runner reads the file."""
    outputs, lines = {}, text.split("\n")
    while lines and lines[0]:
        name, delimiter = lines.pop(0).split("<<")
        end = lines.index(delimiter)
        outputs[name], lines = "\n".join(lines[:end]), lines[end + 1 :]
    return outputs


def finding(rule: str, path: str, line: int, message: str) -> SourceFinding:
    return SourceFinding(path=path, line=line, column=0, rule=rule, message=message)


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_any_value_of_an_output_is_read_back(tmp_path_factory, value):
    path = tmp_path_factory.mktemp("out") / "output"
    write_outputs(path, {"a": value, "b": "kquota-0\nb<<x"})
    assert read_outputs(path.read_bytes().decode()) == {"a": value, "b": "kquota-0\nb<<x"}


def test_delimiters_are_different_each_time(tmp_path):
    path = tmp_path / "output"
    for _ in range(50):
        write_outputs(path, {"a": "b"})
    assert len(set(re.findall(r"<<(\S+)", path.read_text()))) == 50


def test_an_annotation_is_one_command_for_any_text():
    annotation = finding("guard", "a,b:c\nd.yaml", 3, HOSTILE)
    (line,) = annotation_lines([annotation], title=HOSTILE)
    assert "\n" not in line
    assert line.startswith("::error title=")
    properties = line[len("::error ") :].split("::")[0]
    assert [part.split("=")[0] for part in properties.split(",")] == ["title", "file", "line"]
    assert "##[" not in line
    assert "\u202e" not in line


def test_at_most_ten_annotations_of_a_kind_are_printed_and_the_tenth_counts_the_rest():
    many = [finding("change", "f", n, str(n)) for n in range(1, 31)]
    few = [finding("guard", "", 0, "e")] * 10
    lines = annotation_lines([*many, *few], title="t")
    notices = [line for line in lines if line.startswith("::notice")]
    assert len(notices) == 10
    assert "21 more of this kind" in notices[-1]
    assert len([line for line in lines if line.startswith("::error")]) == 10
    assert lines[0].startswith("::error")


def test_a_summary_uses_the_remaining_space(tmp_path):
    path = tmp_path / "summary"
    assert room_in(path) == 1024 * 1024
    write_summary(path, "ä" * 10)
    write_summary(path, "b")
    assert room_in(path) == 1024 * 1024 - 21
    assert path.read_text(encoding="utf-8") == "ä" * 10 + "b"


def test_a_file_that_cannot_be_written_is_reported(tmp_path):
    with pytest.raises(UsageError):
        write_outputs(tmp_path / "no" / "such", {"a": "b"})
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError):
        room_in(tmp_path / "file" / "x")
