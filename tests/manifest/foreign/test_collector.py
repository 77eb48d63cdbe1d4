"""Collection, trees and the table of tools, which all readers share."""

import pytest

from reconciler.errors import ManifestErrors, QuotaValueError, UsageError
from reconciler.manifest.foreign.collector import FileLine, ImportCollector, ImportedLimit
from reconciler.manifest.foreign.document_tree import documents
from reconciler.manifest.foreign.tools import TOOLS, ClusterFormat, read_files


def imported_limit(text: str, *, live: bool = False) -> ImportedLimit:
    return ImportedLimit(key="producer_byte_rate", text=text, line=1, live=live)


@pytest.mark.parametrize(
    ("text", "value"),
    [("1024", 1024), ("1024.0", 1024.0), ("1.0E7", 1e7), ("1e+07", 1e7), ("5E-1", 0.5), ("-3", -3)],
)
def test_numbers_of_every_tool_are_parsed_exactly(text, value):
    assert imported_limit(text).value() == value


@pytest.mark.parametrize(
    "text",
    ["", "017", "1_000", "0x10", "12:30", "1.", ".5", "+1", "NaN", "1e99999", "٣", "1" * 401],
)
def test_a_number_with_an_ambiguous_spelling_is_refused(text):
    with pytest.raises(QuotaValueError):
        imported_limit(text).value()


def test_a_written_number_is_exact_and_a_printed_one_is_a_float64():
    assert imported_limit("9007199254740993").value() == 9007199254740993
    assert imported_limit("9223372036854776000", live=True).value() == 2.0**63


def test_declarations_contain_the_line_of_each_limit_and_their_namespace():
    collector = ImportCollector(namespace="platform")
    collector.add(
        FileLine("f", 3), [ImportedLimit(key="request_percentage", text="5", line=4)], {"user": "a"}
    )
    (declaration,) = collector.result().declarations
    assert (declaration.document, declaration.path, declaration.line, declaration.lines) == (
        "platform/user.a",
        "f",
        3,
        (0, 0, 4, 0, 0),
    )


def test_declarations_are_sorted_by_entity_and_remarks_by_place():
    collector = ImportCollector(namespace="default")
    for name in ("b", "a"):
        collector.add(FileLine("f", 1), [imported_limit("1")], {"user": name})
        collector.lose(FileLine(name, 1), "x")
        collector.note(FileLine(name, 1), "y")
    result = collector.result()
    assert [declaration.entity[0] for declaration in result.declarations] == ["a", "b"]
    assert (
        [loss.path for loss in result.losses] == [note.path for note in result.notes] == ["a", "b"]
    )


def test_a_scalar_root_has_neither_fields_nor_items():
    (root,) = documents("f", "words\n")
    for walk in (root.fields, root.items):
        with pytest.raises(ManifestErrors):
            list(walk())
    with pytest.raises(ManifestErrors):
        root.get("a")


def test_every_problem_of_a_yaml_file_is_listed_with_the_next_step():
    with pytest.raises(ManifestErrors) as raised:
        documents("f", "a: !x 1\n---\nb: [\n")
    assert len(raised.value.problems) == 2
    assert "plain YAML" in raised.value.hint


@pytest.mark.parametrize(
    "tool", [name for name, reader in TOOLS.items() if not isinstance(reader, ClusterFormat)]
)
def test_a_tool_without_separate_clusters_accepts_no_source_cluster(tool):
    with pytest.raises(UsageError, match="--source-cluster"):
        read_files(tool, [("f", "")], source_cluster="a")
