"""A file under a separate ref: history, compare-and-swap, and sharing through a remote."""

import os
import shutil
from pathlib import Path

import pytest

from reconciler.errors import GitError, InventoryLocked
from reconciler.git.command import run
from reconciler.git.refs import GitRefs

REF = "refs/kquota/lkc1"


def repository(path: Path, *arguments: str) -> Path:
    path.mkdir()
    run(path, ("init", "--quiet", "-b", "main", *arguments))
    return path


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return repository(tmp_path / "clone")


def test_written_records_are_read_back_and_keep_their_history(top: Path):
    refs = GitRefs(top=top)
    first = refs.write(REF, b"one\n", expected=None, message="intent")
    assert refs.read(REF) == (first, b"one\n")
    second = refs.write(REF, b"two\n", expected=first, message="result")
    assert refs.read(REF) == (second, b"two\n")
    _, log = run(top, ("log", "--format=%s", REF))
    assert log == b"result\nintent\n"


def test_a_writer_with_a_stale_ref_writes_nothing(top: Path):
    refs = GitRefs(top=top)
    first = refs.write(REF, b"one", expected=None, message="a")
    second = refs.write(REF, b"two", expected=first, message="b")
    for expected in (None, first):
        with pytest.raises(InventoryLocked, match="another process"):
            refs.write(REF, b"mine", expected=expected, message="c")
    assert refs.read(REF) == (second, b"two")


def test_two_clones_share_one_remote_and_cannot_overwrite_each_other(tmp_path: Path):
    remote = repository(tmp_path / "remote", "--bare")
    clones = [repository(tmp_path / name) for name in ("a", "b")]
    for clone in clones:
        run(clone, ("remote", "add", "origin", str(remote)))
    first_refs, second_refs = (GitRefs(top=clone) for clone in clones)
    assert first_refs.read(REF) is None
    first = first_refs.write(REF, b"one", expected=None, message="a")
    assert second_refs.read(REF) == (first, b"one")
    second = second_refs.write(REF, b"two", expected=first, message="b")
    with pytest.raises(InventoryLocked):
        first_refs.write(REF, b"mine", expected=first, message="c")
    assert first_refs.read(REF) == (second, b"two")


def test_git_is_asked_once_whether_there_is_a_remote(
    top: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    log, program = tmp_path / "log", tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" >> {log}\nexec {shutil.which("git")} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    refs = GitRefs(top=top)
    first = refs.write(REF, b"one", expected=None, message="a")
    assert refs.read(REF) == (first, b"one")
    _ = refs.write(REF, b"two", expected=first, message="b")
    commands = [line.split()[-1] for line in log.read_text().splitlines()]
    assert commands.count("remote") == 1


def test_an_unreachable_remote_is_an_error_not_an_empty_inventory(top: Path, tmp_path: Path):
    run(top, ("remote", "add", "origin", str(tmp_path / "gone")))
    with pytest.raises(GitError, match="git ls-remote failed"):
        GitRefs(top=top).read(REF)


def test_a_ref_without_the_records_file_is_an_error(top: Path):
    GitRefs(top=top, file="other.json").write(REF, b"x", expected=None, message="a")
    with pytest.raises(GitError):
        GitRefs(top=top).read(REF)
