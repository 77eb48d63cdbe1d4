"""Every drop reason of series, points and samples has a sentence and a line in the documentation; no count is lost."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from reconciler.evidence.ingest.drop_reasons import EXAMPLES, PARTIAL, DropCounts, DropReason
from tools import telemetry_docs

ROOT = Path(__file__).parents[3]
COUNTED = st.dictionaries(st.sampled_from(DropReason), st.integers(1, 1000))


def test_the_page_of_tables_has_what_to_do_about_each_drop_reason() -> None:
    assert telemetry_docs.words() in (ROOT / "docs" / "tables.md").read_text(encoding="utf-8")


def test_names_are_sorted():
    counts = DropCounts()
    counts.add(DropReason.FILLED, 2)
    counts.add(DropReason.SNAPPED)
    assert list(counts.by_name().items()) == [("snapped", 1), ("filled", 2)]


@given(COUNTED, COUNTED)
def test_merging_adds_the_counts_of_each_reason(
    first: dict[DropReason, int], second: dict[DropReason, int]
) -> None:
    both = DropCounts(first)
    both.merge(DropCounts(second))
    assert dict(both) == {
        word: first.get(word, 0) + second.get(word, 0) for word in {*first, *second}
    }


@given(COUNTED)
def test_a_result_is_partial_if_data_could_not_be_read(counted: dict[DropReason, int]) -> None:
    assert DropCounts(counted).partial is bool(PARTIAL & set(counted))


def test_a_zero_count_is_not_stored_and_a_missing_count_is_zero() -> None:
    counts = DropCounts()
    counts.add(DropReason.RETRIES, 0)
    assert (len(counts), counts[DropReason.RETRIES], DropReason.RETRIES in counts) == (0, 0, False)


def test_lines_explain_each_reason_and_the_first_places_are_stored() -> None:
    counts = DropCounts()
    for number in range(20):
        counts.add(DropReason.BAD_LINE, 1, f"file:{number}")
    more = DropCounts()
    more.merge(counts)
    assert more.examples(DropReason.BAD_LINE) == tuple(
        f"file:{number}" for number in range(EXAMPLES)
    )
    assert more.lines() == (f"20 bad_line: {DropReason.BAD_LINE.value}",)
