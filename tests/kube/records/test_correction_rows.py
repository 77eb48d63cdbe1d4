"""Corrections of drift in a ConfigMap: what is written reads back, and damage is an error."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.kube.records.correction_rows import corrections_text, read_corrections
from reconciler.quota.drift_tracker import CorrectionHistory
from reconciler.quota.keys import Key
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
def test_everything_reads_back(histories) -> None:
    assert read_corrections(corrections_text(histories)) == histories


GOOD = ["u", False, False]


@pytest.mark.parametrize(
    "text",
    [
        None,
        "{",
        "[1]",
        "[[]]",
        '[[["u",false],"producer_byte_rate","d",[1,2,3,4,5],1,[]]]',
        '[[["u",false,false],"no key","d",[1,2,3,4,5],1,[]]]',
        '[[["u",false,false],"producer_byte_rate",5,[1,2,3,4,5],1,[]]]',
        '[[["u",false,false],"producer_byte_rate","d",[1],1,[]]]',
        '[[["u",false,false],"producer_byte_rate","d",[1,2,3,4,5],true,[]]]',
        '[[["u",false,false],"producer_byte_rate","d",[1,2,3,4,5],1,[[1]]]]',
        '[[[false,false,false],"producer_byte_rate","d",[1,2,3,4,5],1,[]]]',
    ],
)
def test_damage_is_an_error(text) -> None:
    with pytest.raises(ValueError, match=r"should be|Expecting|valid|entity"):
        _ = read_corrections(text)
