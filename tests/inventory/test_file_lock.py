"""One writer at a time; the second process reports the first, and a killed holder leaves no lock."""

import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.errors import InventoryLocked
from reconciler.inventory.file_lock import FileLock

HOLD = """
import sys
from pathlib import Path
from reconciler.inventory.file_lock import FileLock
lock = FileLock(Path(sys.argv[1]), command="kquota apply", now=1_700_000_000.0)
lock.acquire()
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path):
    """Another process that holds the lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def lock(tmp_path: Path) -> FileLock:
    return FileLock(tmp_path / "lock", command="kquota drift", now=0.0)


def test_a_second_writer_is_informed_of_the_lock_holder(tmp_path: Path, holder):
    with pytest.raises(InventoryLocked) as caught:
        lock(tmp_path).acquire()
    assert caught.value.holder.startswith(f"kquota apply, process {holder.pid} on ")
    assert caught.value.holder.endswith("since 2023-11-14T22:13:20+00:00")
    assert caught.value.retriable
    assert caught.value.hint.startswith("wait until it ends")


def test_the_lock_of_a_killed_holder_is_free(tmp_path: Path, holder):
    holder.kill()
    holder.wait()
    with lock(tmp_path) as file_lock:
        assert file_lock.is_held


def test_a_lock_with_unreadable_content_is_held(tmp_path: Path):
    first = lock(tmp_path)
    with first:
        (tmp_path / "lock").write_text("{")
        with pytest.raises(InventoryLocked, match=r"another process \(unknown\)"):
            lock(tmp_path).acquire()


def test_releasing_twice_does_nothing(tmp_path: Path):
    file_lock = lock(tmp_path)
    file_lock.acquire()
    file_lock.release()
    file_lock.release()
    assert not file_lock.is_held
