"""The quick way to read a change and the careful one accept the same rows and make the same of them."""

import copy

from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import ConfigError
from reconciler.render.json_documents.codec import DocumentReader
from reconciler.render.json_documents.plan import plan_document
from reconciler.render.json_documents.plan_reader import _change, _FastReader
from tests.render.previews import sample

ROWS = plan_document(sample())["changes"]
ODD = st.sampled_from(
    [
        None, True, False, 0, 1, 1.0, -0.0, 2**1023 * 4, "", "NaN", "x", [], ["create"], ["update"], ["remove"], {},
        [["user", "alice"]], [["user", None]], [["user", True]], [{"user": 1, "x": 2}], ["ip"], [["user", "a", "b"]],
        [["client-id", "a"], ["user", "b"]], [["user", "a"], ["user", "b"]], [["ip", "1.2.3.4"], ["user", "b"]],
        {"value": 1, "document": "a"}, {"value": True, "document": "a"}, {"value": "-0.0", "document": "a"},
        {"value": 1, "document": "a", "more": 1},
        {"document": "a", "deletionPolicy": None, "since": 1.0}, {"document": "a", "deletionPolicy": "Retain", "since": 1},
        {"document": "a", "deletionPolicy": [], "since": 1.0}, {"document": "a", "deletionPolicy": "x", "since": True},
    ]
)  # fmt: skip
FIELDS = st.sampled_from([*ROWS[0], "extra"])
EDITS = st.lists(st.one_of(st.tuples(FIELDS, ODD), st.tuples(FIELDS)), max_size=3)


def careful(row):
    """What the careful way says, with its repr, which tells -0.0 from 0.0 and NaN from nothing."""
    try:
        return repr(_change(DocumentReader(row)))
    except ConfigError:
        return None


@given(st.sampled_from(ROWS), EDITS, st.sampled_from(ROWS))
def test_the_quick_way_never_accepts_or_reads_anything_else(row, edits, neighbour):
    edited = copy.deepcopy(row)
    for name, *value in edits:
        if value:
            edited[name] = value[0]
        else:
            _ = edited.pop(name, None)
    quick = _FastReader()
    _ = quick.change(neighbour)
    found = quick.change(edited)
    assert found is None or repr(found) == careful(edited)


def test_the_quick_way_reads_every_plain_row():
    quick = _FastReader()
    read = [quick.change(row) for row in ROWS]
    assert all(
        one is None or repr(one) == careful(row) for one, row in zip(read, ROWS, strict=True)
    )
    assert sum(one is not None for one in read) >= len(ROWS) - 1
