"""Files that kquota stores are refused where a commit could contain them, on any disk and without git too."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.app.clusters.state_files import own_path
from reconciler.errors import ConfigError
from tests.git.commits import commit, git, repository

NAME = ".kquota/caf\u00e9.json"
SPELLINGS = st.lists(st.booleans(), min_size=len(NAME), max_size=len(NAME)).map(
    lambda upper: "".join(
        letter.upper() if is_upper else letter for letter, is_upper in zip(NAME, upper, strict=True)
    )
)


@given(spelling=SPELLINGS, is_decomposed=st.booleans())
def test_a_committed_file_is_refused_by_each_name_that_a_disk_can_take_for_it(
    spelling: str, *, is_decomposed: bool
) -> None:
    if is_decomposed:
        spelling = spelling.replace("\u00e9", "e\u0301").replace("\u00c9", "E\u0301")
    with tempfile.TemporaryDirectory() as folder:
        top = repository(Path(folder) / "top")
        commit(top, {spelling: "{}"})
        (top / ".kquota").mkdir(exist_ok=True)
        with pytest.raises(ConfigError, match="git tracks"):
            own_path(top, NAME, content_name="records")


def test_a_committed_file_is_refused_through_a_link_from_outside_of_the_repository(
    tmp_path: Path,
) -> None:
    top = repository(tmp_path / "top")
    commit(top, {"state/inventory.json": "{}"})
    (tmp_path / "link").symlink_to(top / "state")
    with pytest.raises(ConfigError, match=r"git tracks state/inventory\.json"):
        own_path(tmp_path, "link/inventory.json", content_name="records")


def test_without_git_files_in_a_repository_are_refused_and_others_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = repository(tmp_path / "top")
    git(top, "status")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="cannot be trusted without the git command") as refusal:
        own_path(top, ".kquota/inventory.json", content_name="records")
    assert "keep records outside of" in refusal.value.hint
    path = own_path(tmp_path, "state/inventory.json", content_name="records")
    assert path == tmp_path / "state/inventory.json"
