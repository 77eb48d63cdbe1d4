"""Collection, trees and the table of tools, which all readers share."""

import pytest

from reconciler.errors import ManifestErrors, QuotaValueError, UsageError
from reconciler.manifest.foreign.collector import ImportedLimit
from reconciler.manifest.foreign.document_tree import documents
from reconciler.manifest.foreign.tools import TOOLS, ClusterFormat, read_files


def imported_limit(text: str, *, live: bool = False) -> ImportedLimit:
    return ImportedLimit(key="producer_byte_rate", text=text, line=1, live=live)


@pytest.mark.parametrize(
    "text",
    ["", "017", "1_000", "0x10", "12:30", "1.", ".5", "+1", "NaN", "1e99999", "٣", "1" * 401],
)
def test_a_number_with_an_ambiguous_spelling_is_refused(text):
    with pytest.raises(QuotaValueError):
        imported_limit(text).value()


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
