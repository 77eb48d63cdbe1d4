"""The stored state of loops: written and read back; damage is an error."""

import json
import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.codecs.loop_memory import (
    WatchStateContent,
    corrections_text,
    read_corrections,
    read_removals,
    read_watch_state,
    removals_text,
    watch_state_text,
)
from reconciler.errors import ConfigError
from reconciler.quota.drift_tracker import CorrectionHistory
from reconciler.quota.keys import Key
from reconciler.quota.planner.removal_guard import RemovalCount
from tests.inventory.samples import ENTITIES

MOMENTS = st.floats(0, 4e9)
LIMITS = st.none() | st.floats(0, 1e12)
LIVE_VALUES = LIMITS | st.sampled_from((math.inf, -math.inf, -0.0, 1e300, 2.0**60))
HISTORIES = st.builds(
    CorrectionHistory,
    entity=ENTITIES,
    key=st.sampled_from(Key),
    document=st.text(max_size=9),
    limits=st.tuples(LIMITS, LIMITS, LIMITS, LIMITS, LIMITS),
    expected=LIVE_VALUES,
    corrections=st.lists(st.tuples(MOMENTS, LIVE_VALUES), max_size=3).map(tuple),
)

# ---- corrections -----------------------------------------------------------------------------


@given(st.lists(HISTORIES, max_size=4).map(tuple))
def test_corrections_are_read_as_they_were_written(histories) -> None:
    text = corrections_text(histories)
    assert text.isascii()
    assert "\n" not in text
    assert repr(read_corrections(text, location="corrections")) == repr(histories)


ROW = '["u",false,false],"producer_byte_rate","d"'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("null", "the document should be array, not null"),
        ("{", "not a complete JSON"),
        ("[" * 100_000, "not a complete JSON"),
        ("[1]", r"\[0\] should be array, not int"),
        ("[[]]", r"\[0\] should be array of at least length 6, not 0"),
        (f"[[{ROW},[1,2,3,4,1e999],1,[]]]", r"\[0\]\[3\]\[4\] should be float <="),
        (f"[[{ROW},[1,2,3,4,NaN],1,[]]]", "NaN is no JSON"),
        (
            '[[["u",false],"producer_byte_rate","d",[1,2,3,4,5],1,[]]]',
            r"\[0\]\[0\] should be array",
        ),
        ('[[["u",false,5],"producer_byte_rate","d",[1],1,[]]]', r"\[0\]\[0\]\[2\] should be"),
        (
            '[[["u",false,true],"producer_byte_rate","d",[1],1,[]]]',
            r"\[0\]: .*not a name, null or false",
        ),
        ('[[["u",false,false],"no key","d",[1,2,3,4,5],1,[]]]', r"\[0\]\[1\] .* than 'no key'"),
        ('[[["u",false,false],"producer_byte_rate",5,[1],1,[]]]', r"\[0\]\[2\] should be str"),
        (f"[[{ROW},[],1,[]]]", r"\[0\]\[3\] should be array of length"),
        (f"[[{ROW},[1,2,3,4,5,6],1,[]]]", r"\[0\]\[3\] should be array of length"),
        (f'[[{ROW},[1,"2"],1,[]]]', r"\[0\]\[3\]\[1\] .* than '2'"),
        (f"[[{ROW},1,1,[]]]", r"\[0\]\[3\] should be array, not int"),
        (f"[[{ROW},[1,2,3,4,5],true,[]]]", r"\[0\]\[4\] should be .*, not bool"),
        (f"[[{ROW},[1,2,3,4,5],1,[[1]]]]", r"\[0\]\[5\]\[0\] should be array of length 2"),
        (f"[[{ROW},[1],1,[[-1,1]]]]", r"\[0\]\[5\]\[0\]\[0\] should be float >= 0"),
        (f"[[{ROW},[1],1,[],1]]", r"\[0\] should be array of at most length 6, not 7"),
        ('[[[false,false,false],"producer_byte_rate","d",[1],1,[]]]', r"\[0\]: .*an entity"),
    ],
)
def test_damaged_corrections_are_an_error_with_their_place(text, words) -> None:
    with pytest.raises(ConfigError, match=rf"corrections: .*{words}"):
        _ = read_corrections(text, location="corrections")


def test_limits_from_before_a_key_was_added_are_completed_with_no_limit() -> None:
    text = f"[[{ROW},[1,null,3],1,[]]]"
    (history,) = read_corrections(text, location="corrections")
    assert history.limits == (1, None, 3, None, None)


# ---- removals --------------------------------------------------------------------------------


COUNTS = st.builds(
    RemovalCount, at=MOMENTS, tenant=st.text(max_size=5), count=st.integers(0, 10**6)
)


@given(st.lists(COUNTS, max_size=5).map(tuple))
def test_counts_of_removals_read_back(counts) -> None:
    assert read_removals(removals_text(counts), location="removals") == counts


COUNT = {"tenant": "a", "count": 1, "at": 1.0}


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (COUNT | {"count": True}, r"\[0\]\.count should be int, not bool"),
        (COUNT | {"count": -1}, r"\[0\]\.count should be int >= 0"),
        (COUNT | {"count": 1.5}, r"\[0\]\.count should be int, not float"),
        (COUNT | {"at": "1"}, r"\[0\]\.at should be float, not str"),
        (COUNT | {"at": True}, r"\[0\]\.at should be float, not bool"),
        (COUNT | {"at": 10**400}, r"\[0\]\.at "),
        (COUNT | {"tenant": None}, r"\[0\]\.tenant should be str, not null"),
        (COUNT | {"more": 1}, r"\[0\] should be an object without the unknown field 'more'"),
        ({"tenant": "a", "count": 1}, r"\[0\] should be an object with the field 'at'"),
        ([1.0, 1, "a"], r"\[0\] should be object, not array"),
        (None, r"\[0\] should be object, not null"),
    ],
)
def test_malformed_counts_of_removals_are_refused(row, words) -> None:
    with pytest.raises(ConfigError, match=rf"removals: {words}"):
        read_removals(json.dumps([row]), location="removals")


# ---- kquota watch ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        ({"kind": "other"}, "this is not a kquota-watch document but 'other'"),
        ({"format": 2}, "its format is 2; this kquota reads format 1"),
        ({"more": 1}, "the document should be an object without the unknown field 'more'"),
        ({"commit": None}, "commit should be str, not null"),
        ({"removals": []}, "removals should be object, not array"),
        (
            {"removals": {"eu": [COUNT | {"count": -1}]}},
            r"removals\.eu\[0\]\.count should be int",
        ),
    ],
)
def test_a_damaged_state_of_watch_is_refused_with_its_place(edit, words) -> None:
    document = json.loads(watch_state_text(WatchStateContent(commit="abc"))) | edit
    with pytest.raises(ConfigError, match=rf"state\.json: {words}"):
        read_watch_state(json.dumps(document), location="state.json")


def test_a_field_of_the_state_of_watch_that_is_given_twice_is_refused() -> None:
    text = watch_state_text(WatchStateContent(commit="abc"))
    assert msgspec.json.decode(text)["commit"] == "abc"
    with pytest.raises(ConfigError, match="the key 'commit' is given twice"):
        read_watch_state(text.replace("{", '{"commit": "", ', 1), location="state.json")
