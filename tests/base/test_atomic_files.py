"""A file is replaced completely or not at all, and no temporary file remains."""

import os
from pathlib import Path

import pytest

from reconciler.base.atomic_files import remove_drafts, replace_file


def test_a_file_gets_its_content_and_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old and longer")
    replace_file(path, b"new")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"new", 0o600)
    replace_file(path, b"newer", mode=0o644)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"newer", 0o644)
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_is_replaced_and_its_target_is_unchanged(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("as before")
    link.symlink_to(target)
    replace_file(link, b"new")
    assert not link.is_symlink()
    assert target.read_text() == "as before"


@pytest.mark.parametrize("is_link", [False, True])
def test_a_pipe_or_a_device_is_not_replaced(tmp_path: Path, is_link: bool) -> None:
    path = tmp_path / "file"
    if is_link:
        path.symlink_to("/dev/null")
    else:
        os.mkfifo(path)
    before = path.lstat()
    with pytest.raises(OSError, match=r"it is a (pipe|device), not a regular file"):
        replace_file(path, b"new")
    assert path.lstat() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_dangling_link_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "link"
    path.symlink_to(tmp_path / "missing")
    replace_file(path, b"new")
    assert path.read_bytes() == b"new"
    assert not path.is_symlink()


def test_a_reader_that_opened_the_old_file_reads_all_of_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with path.open("rb") as reader:
        replace_file(path, b"newer")
        assert reader.read() == b"old"


@pytest.mark.parametrize("name", ["folder", "missing/file"])
def test_a_failure_leaves_no_file(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "inside").touch()
    with pytest.raises(OSError, match="directory"):
        replace_file(tmp_path / name, b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_only_temporary_files_of_the_same_file_are_removed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    draft = tmp_path / ".file.a1b2_c3d.new"
    bystanders = [tmp_path / name for name in (".file.lock", ".other.a1b2.new", "file.new")]
    for each in (path, draft, *bystanders):
        each.write_text("x")
    remove_drafts(path)
    assert not draft.exists()
    assert all(each.exists() for each in (path, *bystanders))
