"""The state documents of loops: written and read back; damage is an error."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.codecs.loop_memory import (
    correction_rows,
    read_corrections,
    read_removals,
    removal_rows,
)
from reconciler.codecs.reader import parsed
from reconciler.errors import ConfigError
from reconciler.quota.drift_tracker import CorrectionHistory
from reconciler.quota.keys import Key
from reconciler.quota.planner.removal_guard import RemovalCount
from tests.inventory.samples import ENTITIES

VALUES = st.none() | st.floats(0, 1e12)
HISTORIES = st.builds(
    CorrectionHistory,
    entity=ENTITIES,
    key=st.sampled_from(Key),
    document=st.text(max_size=9),
    limits=st.tuples(VALUES, VALUES, VALUES, VALUES, VALUES),
    expected=VALUES,
    corrections=st.lists(st.tuples(st.floats(0, 4e9), VALUES), max_size=3).map(tuple),
)


@given(st.lists(HISTORIES, max_size=4).map(tuple))
def test_the_memory_is_read_as_it_was_written(histories) -> None:
    rows = parsed(json.dumps(correction_rows(histories)), location="corrections")
    assert read_corrections(rows) == histories


@pytest.mark.parametrize(
    "text",
    [
        "null",
        '[[["u",false,false],"producer_byte_rate","d",[1,2,3,4,1e999],1,[]]]',
        "{",
        "[1]",
        "[[]]",
        '[[["u",false],"producer_byte_rate","d",[1,2,3,4,5],1,[]]]',
        '[[["u",false,false],"no key","d",[1,2,3,4,5],1,[]]]',
        '[[["u",false,false],"producer_byte_rate",5,[1,2,3,4,5],1,[]]]',
        '[[["u",false,false],"producer_byte_rate","d",[],1,[]]]',
        '[[["u",false,false],"producer_byte_rate","d",[1,2,3,4,5,6],1,[]]]',
        '[[["u",false,false],"producer_byte_rate","d",[1,"2"],1,[]]]',
        '[[["u",false,false],"producer_byte_rate","d",1,1,[]]]',
        '[[["u",false,false],"producer_byte_rate","d",[1,2,3,4,5],true,[]]]',
        '[[["u",false,false],"producer_byte_rate","d",[1,2,3,4,5],1,[[1]]]]',
        '[[[false,false,false],"producer_byte_rate","d",[1,2,3,4,5],1,[]]]',
    ],
)
def test_damaged_corrections_are_an_error_with_their_place(text) -> None:
    with pytest.raises(ConfigError, match=r"should be|not a complete JSON"):
        _ = read_corrections(parsed(text, location="corrections"))


def test_limits_from_before_a_key_was_added_are_completed_with_no_limit() -> None:
    text = '[[["u",false,false],"producer_byte_rate","d",[1,null,3],1,[]]]'
    (history,) = read_corrections(parsed(text, location="corrections"))
    assert history.limits == (1, None, 3, None, None)


NUMBERS = st.integers(0, 10**6)
COUNTS = st.builds(
    RemovalCount,
    at=st.floats(allow_nan=False, allow_infinity=False),
    tenant=st.text(max_size=5),
    count=NUMBERS,
)


@given(st.lists(COUNTS, max_size=5).map(tuple))
def test_counts_of_removals_read_back(counts) -> None:
    rows = parsed(json.dumps(removal_rows(counts)), location="removals")
    assert read_removals(rows) == counts


@pytest.mark.parametrize(
    "row",
    [
        "[1.0, true]",
        "[1.0, -1]",
        '["1", 1]',
        "[1e999, 1]",
        "[1.0]",
        "[1.0, 1, 2, 3, 4]",
        "null",
        "[true, 1]",
        '[1.0, 1, "a", -1, 4]',
        '[1.0, 1, "a", 2]',
        '[1.0, 1, "a", 2, 3, 4]',
        "[1.0, 1.5]",
    ],
)
def test_malformed_counts_of_removals_are_refused(row) -> None:
    with pytest.raises(ConfigError, match=r"\[0\].* should be"):
        read_removals(parsed(f"[{row}]", location="removals"))
