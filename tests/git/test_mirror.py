"""A bare copy of one branch: fetched, read, and never without the commits that a process needs."""

import asyncio
import base64
from pathlib import Path

import pytest

from reconciler.errors import GitError
from reconciler.git.mirror import KEPT, GitMirror, GitSource
from tests.git.commits import commit, git, repository


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    return repository(tmp_path / "origin")


def mirror(tmp_path: Path, origin: Path, branch: str = "") -> GitMirror:
    return GitMirror(
        folder=tmp_path / "mirror.git", source=GitSource(address=str(origin)), branch=branch
    )


def fetched(git_mirror: GitMirror) -> str:
    return asyncio.run(git_mirror.fetch())


def test_the_newest_commit_is_fetched_with_its_files_and_its_history(tmp_path: Path, origin: Path):
    first = commit(origin, {"a.yaml": "1"})
    git_mirror = mirror(tmp_path, origin)
    assert fetched(git_mirror) == first
    second = commit(origin, {"a.yaml": "2"})
    assert fetched(git_mirror) == second
    assert git_mirror.tree(second).read(["a.yaml"]) == {"a.yaml": b"2"}
    assert git_mirror.tree(first).read(["a.yaml"]) == {"a.yaml": b"1"}
    assert git_mirror.follows(second, first)
    assert not git_mirror.follows(first, second)
    assert git(git_mirror.folder, "rev-parse", "--is-bare-repository") == "true"


@pytest.mark.parametrize(
    "branch", ["-x", "a b", "a..b", "a:b", "a*", "x.lock", "a/", "a\n", "@{u}x@{"]
)
def test_an_invalid_branch_name_is_refused_before_git_receives_it(tmp_path: Path, branch: str):
    with pytest.raises(GitError, match="cannot be the name of a branch"):
        mirror(tmp_path, tmp_path, branch)


def test_a_retained_commit_survives_a_rewritten_branch_and_garbage_collection(
    tmp_path: Path, origin: Path
):
    commit(origin, {"a.yaml": "1"})
    good = commit(origin, {"a.yaml": "2"})
    git_mirror = mirror(tmp_path, origin)
    fetched(git_mirror)
    git_mirror.keep(good)
    git(origin, "reset", "--quiet", "--hard", "HEAD~1")
    other_commit = commit(origin, {"a.yaml": "3"})
    assert fetched(git_mirror) == other_commit
    git(git_mirror.folder, "gc", "--quiet", "--prune=now")
    assert git_mirror.has(good)
    assert not git_mirror.follows(other_commit, good)
    git_mirror.keep(other_commit)
    git(git_mirror.folder, "reflog", "expire", "--expire=now", "--all")
    git(git_mirror.folder, "gc", "--quiet", "--prune=now")
    assert not git_mirror.has(good)
    assert not git_mirror.follows(other_commit, good)
    assert git(git_mirror.folder, "rev-parse", KEPT) == other_commit


def test_hooks_and_templates_of_the_machine_are_not_run(tmp_path: Path, origin: Path, monkeypatch):
    template = tmp_path / "template" / "hooks"
    template.mkdir(parents=True)
    hook = template / "reference-transaction"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    monkeypatch.setenv("GIT_TEMPLATE_DIR", str(template.parent))
    commit(origin, {"a.yaml": "1"})
    git_mirror = mirror(tmp_path, origin)
    fetched(git_mirror)
    assert not (tmp_path / "ran").exists()
    assert not (git_mirror.folder / "hooks").exists()


def test_a_folder_that_cannot_be_created_is_reported(tmp_path: Path, origin: Path):
    (tmp_path / "file").write_text("")
    git_mirror = GitMirror(
        folder=tmp_path / "file" / "mirror", source=GitSource(address=str(origin))
    )
    with pytest.raises(GitError, match="cannot be made"):
        git_mirror.prepare()


def test_the_display_name_contains_source_and_branch(tmp_path: Path, origin: Path):
    assert mirror(tmp_path, origin, "main").display_name == f"{origin} (main)"
    assert mirror(tmp_path, origin).display_name == f"{origin} (default branch)"


HERE = Path()


@pytest.mark.parametrize(
    "text",
    [
        "https://git.example.org/a/b.git",
        "ssh://git@git.example.org/a/b.git",
        "git@git.example.org:a/b.git",
        "git.example.org:a/b.git",
        "file:///srv/quotas.git",
    ],
)
def test_addresses_without_a_password_are_used_unchanged(text: str):
    assert GitSource.of(text, start=HERE) == GitSource(address=text)


def test_a_password_of_a_url_becomes_a_header_for_that_host_alone():
    source = GitSource.of("https://bot:s3%2Fcret@git.example.org:8443/a.git", start=HERE)
    assert source.address == "https://git.example.org:8443/a.git"
    assert source.variables == {
        "http.https://git.example.org:8443/.extraHeader": "Authorization: Basic "
        + base64.b64encode(b"bot:s3/cret").decode()
    }
    assert "s3" not in repr(source)


def test_a_token_without_a_user_name_is_a_secret_too():
    source = GitSource.of("https://ghp_token@git.example.org/a.git", start=HERE)
    assert source.address == "https://git.example.org/a.git"
    assert "ghp_token" not in repr(source)
    assert source.variables


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-upload-pack=rm",
        "--help",
        "two\nlines",
        "ext::sh -c id",
        "fd::17/foo",
        "ext+x://whatever",
        "ftp://git.example.org/a.git",
        "http://bot:secret@git.example.org/a.git",
        "ssh://git:secret@git.example.org/a.git",
        "no/such/folder",
    ],
)
def test_malformed_leaking_and_executing_addresses_are_refused(text: str):
    with pytest.raises(GitError) as caught:
        GitSource.of(text, start=HERE)
    assert "secret" not in str(caught.value)
