"""The state file between runs."""

from pathlib import Path

import pytest

from reconciler.errors import ConfigError
from reconciler.sandbox import cluster


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
