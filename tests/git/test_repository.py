"""Commits, ancestry and files at a revision, on real repositories created for each test."""

from pathlib import Path

import pytest

from reconciler.errors import GitError
from reconciler.git.repository import Repository
from tests.git.commits import commit, git, repository


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    return repository(tmp_path / "clone")


def test_variables_of_a_surrounding_hook_do_not_redirect_git(
    clone: Path, tmp_path: Path, monkeypatch
):
    commit(clone, {"a.yaml": "x"})
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    assert Repository.around(clone).top == clone.resolve()


@pytest.mark.parametrize("revision", ["--output=x", "", "a\nb", "a\x00b", "-"])
def test_an_invalid_revision_never_reaches_git(clone: Path, revision: str):
    commit(clone, {"a": "1"})
    with pytest.raises(GitError, match="cannot be a git revision"):
        Repository.around(clone).commit(revision)


def test_an_unknown_revision_is_an_error_with_the_next_step(clone: Path):
    commit(clone, {"a": "1"})
    with pytest.raises(GitError, match="no commit 'nowhere'") as caught:
        Repository.around(clone).commit("nowhere")
    assert "spelling" in caught.value.hint


def test_files_are_listed_and_read_at_a_revision_and_not_from_disk(clone: Path):
    first = commit(
        clone, {"q/a.yaml": "one", "q/deep/b.yml": "two\n", "kquota.yaml": "p", "qq": ""}
    )
    commit(clone, {"q/a.yaml": "changed"})
    (clone / "q/a.yaml").write_text("dirty")
    tree = Repository.around(clone).tree(first)
    assert tree.commit == first
    assert tree.under(["q"]) == ("q/a.yaml", "q/deep/b.yml")
    assert tree.under(["."]) == ("kquota.yaml", "q/a.yaml", "q/deep/b.yml", "qq")
    assert tree.under(["./q/deep/"]) == ("q/deep/b.yml",)
    assert tree.is_plain_file("q/a.yaml")
    assert tree.read(["q/a.yaml", "q/deep/b.yml", "qq"]) == {
        "q/a.yaml": b"one",
        "q/deep/b.yml": b"two\n",
        "qq": b"",
    }
    assert tree.read([]) == {}


def test_names_with_line_breaks_and_non_utf8_bytes_are_read_back(clone: Path):
    name = "q/a\nb\t`|.yaml"
    commit(clone, {name: "x"})
    assert Repository.around(clone).tree().read([name]) == {name: b"x"}


def test_a_missing_path_is_an_error(clone: Path):
    commit(clone, {"a": "1"})
    with pytest.raises(GitError, match="gone is not a file of commit"):
        Repository.around(clone).tree().read(["gone"])


def test_links_are_followed_inside_the_tree(clone: Path):
    (clone / "q/sub").mkdir(parents=True)
    (clone / "q/sub/link").symlink_to("../../real")
    (clone / "twice").symlink_to("q/sub/link")
    commit(clone, {"real": "text"})
    assert Repository.around(clone).tree().read(["q/sub/link", "twice"]) == {
        "q/sub/link": b"text",
        "twice": b"text",
    }


@pytest.mark.parametrize("target", ["/etc/passwd", "../../outside", "q/../../up"])
def test_a_link_out_of_the_repository_is_refused(clone: Path, target: str):
    (clone / "link").symlink_to(target)
    commit(clone, {"a": "1"})
    with pytest.raises(GitError, match="outside the repository"):
        Repository.around(clone).tree().read(["link"])


def test_circular_links_are_detected(clone: Path):
    (clone / "one").symlink_to("two")
    (clone / "two").symlink_to("one")
    commit(clone, {"a": "1"})
    with pytest.raises(GitError, match="form a cycle"):
        Repository.around(clone).tree().read(["one"])


def test_a_hook_and_a_monitor_of_the_repository_are_never_run(clone: Path, tmp_path: Path):
    commit(clone, {"a": "1"})
    marker = tmp_path / "ran"
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\ntouch {marker}\n")
    script.chmod(0o755)
    git(clone, "config", "core.fsmonitor", str(script))
    git(clone, "config", "core.hooksPath", str(tmp_path))
    assert Repository.around(clone).tracked() == {"a"}
    assert not marker.exists()
