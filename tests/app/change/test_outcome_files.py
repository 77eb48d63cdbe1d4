"""Outcome files: the newest ones of each cluster remain, independent of the other clusters of the run."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from reconciler.app.change.outcome_files import (
    MOST_OUTCOMES,
    OUTCOME_FOLDER,
    save_outcome,
    saved_outcomes,
)
from reconciler.app.clusters.targets import ClusterTarget
from reconciler.codecs.outcome import OutcomeWriter
from reconciler.errors import UsageError
from tests.app.test_fleet import target
from tests.render.previews import result


def outcome_path(folder: Path, name: str, *, at: float) -> Path:
    """Write the outcome of one cluster."""
    cluster: ClusterTarget = replace(target(name), root=folder)
    path = save_outcome(cluster, replace(result(), started_at=at), None, OutcomeWriter())
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


def test_two_applies_within_one_second_have_a_file_each(tmp_path: Path) -> None:
    paths = [outcome_path(tmp_path, "prod", at=1e9 + part) for part in (0.1, 0.1, 0.9, 1.0)]
    assert len({*paths}) == 4
    assert sorted(paths) == paths, "names are sorted in the order of the applies"


def test_the_newest_outcome_is_that_of_the_last_run_after_a_step_of_the_clock(
    tmp_path: Path,
) -> None:
    for name, at in (
        ("prod", 1e9 + 3600),
        ("prod", 1e9),
        ("eu", 1e9 + 1),
        ("a", 1e9 + 3603),
        ("prod", 1e9),
    ):
        path = outcome_path(tmp_path, name, at=at)
        assert saved_outcomes(tmp_path)[0] == path
    assert len(saved_outcomes(tmp_path)) == 5


def test_a_run_that_was_killed_before_it_wrote_its_outcome_is_not_the_last_one(
    tmp_path: Path,
) -> None:
    path = outcome_path(tmp_path, "prod", at=1e9)
    path.with_name("2033-01-01T000000Z-prod.json").touch()
    assert saved_outcomes(tmp_path) == [path]


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
        _ = save_outcome(cluster, result(), None, OutcomeWriter())
    assert "has room" in caught.value.hint


def test_an_outcome_without_changes_has_no_file(tmp_path: Path) -> None:
    cluster, idle = replace(target("prod"), root=tmp_path), replace(result(), pairs=())
    assert save_outcome(cluster, idle, None, OutcomeWriter()) is None
    assert list(tmp_path.iterdir()) == []
