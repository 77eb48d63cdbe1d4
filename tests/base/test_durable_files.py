"""Durable files are replaced completely or not at all; errors are sentences."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.base.durable_files import (
    BLOCK_BYTES,
    DISK,
    IGNORE,
    make_private_folder,
    replace_file,
    unwritable_place,
)
from reconciler.errors import InventoryError
from reconciler.inventory.file_lock import FileLock
from tests.base.full_disk import full_disk


def test_a_file_is_replaced_atomically_and_is_private(tmp_path: Path):
    path = tmp_path / "file"
    path.write_text("old and longer")
    path.chmod(0o644)
    DISK.replace(path, b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_private_folder_and_its_missing_parents_belong_to_their_owner_alone(tmp_path: Path):
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o755)
    for _ in range(2):
        make_private_folder(tmp_path / "shared" / "state" / "outcomes")
    folders = (tmp_path / "shared", *sorted((tmp_path / "shared").rglob("*/")))
    assert [path.stat().st_mode & 0o777 for path in folders] == [0o755, 0o700, 0o700]


def test_git_ignores_a_private_folder(tmp_path: Path):
    make_private_folder(tmp_path / ".kquota" / "outcomes")
    (tmp_path / ".kquota" / "outcomes" / "outcome.json").touch()
    _ = subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    status = subprocess.run(
        ["git", "status", "--porcelain"], cwd=tmp_path, check=True, capture_output=True
    )
    assert status.stdout == b""


def test_a_full_disk_leaves_no_private_folder_that_git_does_not_ignore(tmp_path: Path):
    folder = tmp_path / ".kquota"
    with full_disk(), pytest.raises(OSError, match="File too large"):
        make_private_folder(folder / "outcomes")
    assert list(tmp_path.iterdir()) == []
    make_private_folder(folder / "outcomes")
    assert (folder / ".gitignore").read_text() == IGNORE


def test_a_full_disk_is_reported_in_a_sentence(tmp_path: Path):
    with full_disk(), pytest.raises(InventoryError, match="cannot be written: File too large"):
        DISK.append(tmp_path / "log", b"x")


def link(path: Path, target: Path) -> None:
    path.symlink_to(target)


def dangling_link(path: Path, target: Path) -> None:
    path.symlink_to(target.with_name("missing"))


def second_name(path: Path, target: Path) -> None:
    path.hardlink_to(target)


def pipe(path: Path, target: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize("plant", [link, dangling_link, second_name, pipe])
def test_what_another_user_put_at_the_name_of_a_file_is_not_opened(
    tmp_path: Path, plant: Callable[[Path, Path], None]
):
    path, precious = tmp_path / "shared" / "name", tmp_path / "precious"
    precious.write_text("precious")
    path.parent.mkdir()
    plant(path, precious)
    with pytest.raises(InventoryError, match=r"it is a (link|file of another)|No such device"):
        DISK.append(path, b"x")
    with pytest.raises(
        InventoryError, match=r"cannot be made: it is a (link|pipe|file of another)"
    ):
        FileLock(path, command="kquota apply", now=0.0).acquire()
    assert precious.read_text() == "precious"
    assert set(tmp_path.iterdir()) == {path.parent, precious}


def test_a_file_or_a_link_of_another_user_is_not_written(tmp_path: Path):
    file, foreign_link = tmp_path / "file", tmp_path / "link"
    file.touch()
    foreign_link.symlink_to(tmp_path / "new")
    if os.geteuid() == 0:  # only root can give a file away
        os.chown(file, 1, -1)
        os.lchown(foreign_link, 1, -1)
        with pytest.raises(InventoryError, match="a file of another user"):
            DISK.append(file, b"x")
        with pytest.raises(InventoryError, match="a link of another user"):
            DISK.replace(foreign_link, b"x")
        assert not (tmp_path / "new").exists()
        assert file.read_bytes() == b""


def test_temporary_files_of_a_killed_replacement_are_removed_and_no_others(tmp_path: Path):
    path = tmp_path / "inventory.json"
    DISK.replace(path, b"1")
    leftover = tmp_path / ".inventory.json.a1b2_c3d.new"
    other_files = [
        tmp_path / name
        for name in (".inventory.json.lock", ".other.json.a1b2.new", "inventory.json.new")
    ]
    for file in (leftover, *other_files):
        file.write_text("half")
    DISK.remove_leftovers(path)
    assert not leftover.exists()
    assert path.read_bytes() == b"1"
    assert all(file.exists() for file in other_files)


def test_a_stamp_changes_with_each_replacement_and_a_missing_file_has_none(tmp_path: Path):
    path = tmp_path / "file"
    assert DISK.stamp(path) is None
    DISK.replace(path, b"first")
    first = DISK.stamp(path)
    DISK.replace(path, b"second")
    assert DISK.stamp(path) not in {None, first}
    assert DISK.read(path, max_bytes=6) == b"second"


def test_blocks_from_the_end_are_the_file_in_reverse(tmp_path: Path):
    path = tmp_path / "log"
    DISK.append(path, b"")
    assert list(DISK.blocks_from_end(path)) == []
    content = bytes(range(256)) * (BLOCK_BYTES // 100)
    DISK.append(path, content)
    blocks = list(DISK.blocks_from_end(path))
    assert b"".join(reversed(blocks)) == content
    assert [len(block) for block in blocks[:-1]] == [BLOCK_BYTES] * (len(content) // BLOCK_BYTES)
    with pytest.raises(OSError, match="is a device"):
        next(DISK.blocks_from_end(Path("/dev/zero")))


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


@pytest.mark.parametrize("name", ["folder", "missing/file"])
def test_a_failure_leaves_no_file(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "inside").touch()
    with pytest.raises(OSError, match="directory"):
        replace_file(tmp_path / name, b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_link_to_a_file_that_does_not_exist_yet_is_writable_if_its_folder_is(
    tmp_path: Path,
) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "state" / "missing")
    assert unwritable_place(tmp_path / "link") is None
    (tmp_path / "state").write_text("no folder")
    assert unwritable_place(tmp_path / "link") == tmp_path / "link"


def test_a_file_in_the_private_folder_of_another_user_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "private").mkdir()
    if os.geteuid() == 0:  # root reads all folders; the folders of tmp_path are private to it
        os.setresuid(65534, 65534, 0)
    else:
        (tmp_path / "private").chmod(0)
    try:
        place = unwritable_place(tmp_path / "private" / "file")
    finally:
        if os.geteuid() != 0 and os.getresuid()[2] == 0:
            os.setresuid(0, 0, 0)
    assert place == tmp_path / "private"
