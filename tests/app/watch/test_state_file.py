"""Tests of the state file of `kquota watch`, and of damage to it."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.app.watch.state_file import WatchState
from reconciler.codecs.loop_memory import WatchStateContent, read_watch_state, watch_state_text
from reconciler.errors import InventoryError
from reconciler.quota.planner.removal_guard import RemovalCount

COUNT = RemovalCount(at=1.5, tenant="team", count=3)


def test_the_saved_state_is_read_after_a_restart(tmp_path: Path):
    path = tmp_path / "watch.json"
    state = WatchState(path)
    assert state.now == WatchStateContent()
    state.remember(commit="a" * 40, refused_commit="b" * 40)
    asyncio.run(state.removals("prod").save([COUNT]))
    again = WatchState(path)
    assert again.now.commit == "a" * 40
    assert again.now.refused_commit == "b" * 40
    assert asyncio.run(again.removals("prod").load()) == (COUNT,)
    assert asyncio.run(again.removals("test").load()) == ()
    assert path.stat().st_mode & 0o777 == 0o600


def test_an_unchanged_state_is_not_written(tmp_path: Path):
    path = tmp_path / "watch.json"
    WatchState(path).remember(commit="", refused_commit="")
    assert not path.exists()
    WatchState(path).remember(commit="a")
    before = path.stat().st_mtime_ns, path.stat().st_ino
    WatchState(path).remember(commit="a")
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == before


def test_a_state_that_could_not_be_written_is_not_kept(tmp_path: Path):
    state = WatchState(tmp_path / "gone" / "watch.json")
    with pytest.raises(InventoryError):
        state.remember(commit="a")
    assert state.now == WatchStateContent()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b"\xff",
        b'{"kind":"kquota-inventory","format":1}',
        b'{"kind":"kquota-watch","format":2,"commit":"","refusedCommit":"","removals":{}}',
        b'{"kind":"kquota-watch","format":1,"commit":7,"refusedCommit":"","removals":{}}',
        b'{"kind":"kquota-watch","format":1,"commit":"","refused":"","removals":{}}',
        b'{"kind":"kquota-watch","format":1,"removals":[]}',
        b'{"kind":"kquota-watch","format":1,"removals":{"a":[[1.0,1,"team"]]}}',
        b'{"kind":"kquota-watch","format":1,"removals":{"a":[{"tenant":"t","count":1}]}}',
        b'{"kind":"kquota-watch","format":1,"removals":{"a":[{"tenant":"t","count":true,"at":1}]}}',
        b'{"kind":"kquota-watch","format":1,"removals":{"a":[{"tenant":"t","count":-1,"at":1}]}}',
        b'{"kind":"kquota-watch","format":1,"removals":{"a":[{"tenant":"t","count":1,"at":NaN}]}}',
        b'{"kind":"kquota-watch","format":1,"commit":"a","commit":"b","removals":{}}',
    ],
)
def test_a_damaged_file_is_an_error_and_not_an_empty_state(tmp_path: Path, content: bytes):
    path = tmp_path / "watch.json"
    path.write_bytes(content)
    with pytest.raises(InventoryError, match=r"damaged|cannot be read") as caught:
        WatchState(path)
    assert "delete it" in caught.value.hint
    assert path.read_bytes() == content


def test_a_file_that_cannot_be_read_is_reported(tmp_path: Path):
    (tmp_path / "watch.json").mkdir()
    with pytest.raises(InventoryError, match="cannot be read"):
        WatchState(tmp_path / "watch.json")


NUMBERS = st.integers(0, 10**6)
COUNTS = st.lists(
    st.builds(
        RemovalCount,
        at=st.floats(0, 4e9),
        tenant=st.text(max_size=5),
        count=NUMBERS,
    ),
    max_size=5,
).map(tuple)


@given(
    st.builds(
        WatchStateContent,
        commit=st.text(max_size=10),
        refused_commit=st.text(max_size=10),
        removals=st.dictionaries(st.text(max_size=5), COUNTS, max_size=3),
    )
)
def test_the_file_is_read_as_it_was_written(content: WatchStateContent):
    assert read_watch_state(watch_state_text(content), location="watch.json") == content
