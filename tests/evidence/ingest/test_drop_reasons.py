"""Every state that points and samples can be counted under has a sentence, and a line in the documentation."""

from pathlib import Path

import pytest

from reconciler.evidence.ingest.drop_reasons import (
    SENTENCES,
    DropCounts,
    DropReason,
)

PAGE = Path(__file__).parents[3] / "docs" / "telemetry.md"


@pytest.mark.parametrize("fate", DropReason)
def test_a_state_is_explained_in_words_and_in_the_page(fate):
    section = PAGE.read_text(encoding="utf-8").split("## When days are made")[1]
    assert f"| `{fate.value}` | {SENTENCES[fate]}. | " in section


def test_nothing_at_all_leaves_no_trace_and_names_are_in_order():
    tally = DropCounts()
    tally.add(DropReason.THINNED, 0)
    tally.add(DropReason.FILLED, 2)
    tally.add(DropReason.SNAPPED)
    assert list(tally.by_name().items()) == [("snapped", 1), ("filled", 2)]
