"""Outcome files: the newest ones of each cluster remain, independent of the other clusters of the run."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from reconciler.app.change.outcome_files import MOST_OUTCOMES, OUTCOME_FOLDER, save_outcome
from reconciler.app.clusters.targets import ClusterTarget
from reconciler.errors import UsageError
from tests.app.test_fleet import target
from tests.render.previews import result


def outcome_path(folder: Path, name: str, *, at: float) -> Path:
    """Write the outcome of one cluster."""
    cluster: ClusterTarget = replace(target(name), root=folder)
    path = save_outcome(cluster, replace(result(), started_at=at), None)
    assert path is not None
    return path


def test_older_outcomes_of_a_cluster_are_removed_and_those_of_other_clusters_remain(
    tmp_path: Path,
) -> None:
    eu_outcome = outcome_path(tmp_path, "eu-prod", at=1e9)
    paths = [
        outcome_path(tmp_path, "prod", at=1e9 + number) for number in range(MOST_OUTCOMES + 10)
    ]
    assert [path.exists() for path in paths] == [False] * 10 + [True] * MOST_OUTCOMES
    assert eu_outcome.exists()
    assert len(list((tmp_path / OUTCOME_FOLDER).iterdir())) == MOST_OUTCOMES + 1


@pytest.mark.parametrize("name", [".kquota", OUTCOME_FOLDER])
def test_an_outcome_that_cannot_be_written_is_an_error_that_names_its_file(
    tmp_path: Path, name: str
) -> None:
    blocked = tmp_path / name
    blocked.parent.mkdir(parents=True, exist_ok=True)
    _ = blocked.write_text("a file where the folder should be")
    cluster = replace(target("prod"), root=tmp_path)
    with pytest.raises(
        UsageError, match=rf"{OUTCOME_FOLDER}/\S+-prod.json cannot be written: "
    ) as caught:
        _ = save_outcome(cluster, result(), None)
    assert "has room" in caught.value.hint
