"""The state file between runs."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import ConfigError
from reconciler.sandbox import cluster
from reconciler.sandbox.broker_rules.image import EMPTY, Image, QuotaRecord
from tests.contract.raw import text_of

NAME = st.one_of(st.none(), st.text())
IMAGES = st.dictionaries(
    st.dictionaries(st.sampled_from(["user", "client-id", "x"]), NAME, min_size=1).map(
        lambda named: tuple(sorted(named.items()))
    ),
    st.dictionaries(st.text(), st.floats(), min_size=1),
)


def image_of(values: dict[tuple[tuple[str, str | None], ...], dict[str, float]]) -> Image:
    return EMPTY.applied(
        QuotaRecord(names=names, key=key, value=value)
        for names, limits in values.items()
        for key, value in limits.items()
    )


@given(values=IMAGES)
def test_a_saved_state_is_loaded(tmp_path_factory: pytest.TempPathFactory, values: dict) -> None:
    path = tmp_path_factory.mktemp("state") / "state.json"
    cluster.save_state(path, "id", image_of(values))
    document = cluster.load_state(path)
    assert document is not None
    assert document[0] == "id"
    loaded = {names: dict(value) for names, value in document[1].values.items()}
    assert text_of(loaded) == text_of(values)
    assert list(path.parent.iterdir()) == [path]


def test_without_a_file_there_is_no_state(tmp_path: Path) -> None:
    assert cluster.load_state(tmp_path / "none.json") is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"format": 2, "cluster_id": "a", "entities": []}',
        '{"format": 1, "cluster_id": "a", "entities": [{"entity": {}, "values": {"k": 1}}]}',
        '{"format": 1, "cluster_id": "a", "entities": [{"entity": {"user": 5}, "values": {}}]}',
        '{"format": 1, "cluster_id": "a", "entities": [{"entity": {"user": "a"}, "values": {"k": "1"}}]}',
        '{"format": 1, "cluster_id": "a", "entities": [{"entity": {"user": "a"}, "values": {"k": true}}]}',
        '{"format": 1, "cluster_id": "a", "entities": [{"entity": {"user": "a"}, "values": 5}]}',
        '{"format": 1, "cluster_id": "a", "entities": [], "more": 1}',
        '{"format": 1, "cluster_id": "a", "cluster_id": "b", "entities": []}',
        '{"format": 1, "cluster_id": "a", "entities": [{"entity": {"user": "a"}, "values": {"k": 1, "k": 2}}]}',
        '{"format": 1, "cluster_id": "a", "entities": [{"entity": {"user": "a"}, "values": {"k": 1e999}}]}',
    ],
)
def test_a_foreign_file_is_refused_with_its_path(tmp_path: Path, text: str) -> None:
    path = tmp_path / "state.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"state\.json"):
        cluster.load_state(path)
    assert path.read_text(encoding="utf-8") == text


def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be written"):
        cluster.save_state(tmp_path / "no" / "state.json", "id", EMPTY)


def test_numbers_that_json_cannot_represent_are_stored_as_texts(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    values = {(("user", "a"),): {"nan": math.nan, "up": math.inf, "down": -math.inf}}
    cluster.save_state(path, "id", image_of(values))
    text = path.read_text(encoding="utf-8")
    assert all(f'"{word}"' in text for word in ("NaN", "Infinity", "-Infinity"))


def test_a_file_of_the_previous_layout_is_read(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    rows = [{"entity": {"user": "a", "x": None}, "values": {"k": 1.0, "n": "NaN", "z": -0.0}}]
    document = {"format": 1, "cluster_id": "id", "entities": rows}
    path.write_text(json.dumps(document, indent=1), encoding="utf-8")
    state = cluster.load_state(path)
    assert state is not None
    assert state[0] == "id"
    ((names, values),) = state[1].values.items()
    assert names == (("user", "a"), ("x", None))
    assert text_of({names: dict(values)}) == text_of({names: {"k": 1.0, "n": math.nan, "z": -0.0}})
