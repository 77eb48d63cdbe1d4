"""Child processes end with the test run, even if it is killed."""

import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from tests.servers.processes import Child, ScratchFolder

SLEEPER = [sys.executable, "-c", "import signal; signal.pause()"]
PARENT = """
import signal, sys
from tests.servers.processes import Child, ScratchFolder
call_home = "import signal, socket; s = socket.create_connection(('127.0.0.1', int({port})));"
folder = ScratchFolder.make("orphaned-")
child = Child([sys.executable, "-c", call_home + "signal.pause()"], log=folder.path / "log")
print(folder.path, flush=True)
signal.pause()
"""


def test_a_child_is_signalled_and_reaped(tmp_path: Path) -> None:
    child = Child(SLEEPER, log=tmp_path / "log")
    assert child.running
    assert not child.ended_within(0.01)
    child.kill()
    assert not child.running
    child.signal(signal.SIGTERM)
    assert child.process.returncode == -signal.SIGKILL


def test_the_log_contains_the_output_of_a_child_over_all_its_starts(tmp_path: Path) -> None:
    for word in ("one", "two"):
        child = Child([sys.executable, "-c", f"print({word!r})"], log=tmp_path / "log")
        assert child.ended_within(10)
    assert child.log_text() == "one\ntwo\n"


def test_a_scratch_folder_is_removed_with_its_block() -> None:
    with ScratchFolder.make("scratch-") as folder:
        (folder / "file").touch()
    assert not folder.exists()


def test_children_and_folders_are_removed_when_the_parent_is_killed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as home:
        program = PARENT.replace("{port}", str(home.getsockname()[1]))
        command = [sys.executable, "-c", program]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
            folder = Path(parent.stdout.readline().strip())
            child, _ = home.accept()
            assert folder.exists()
            parent.kill()
    child.settimeout(60)
    with child:
        assert child.recv(1) == b"", "the child outlived its parent"
    deadline = time.monotonic() + 60
    while folder.exists() and time.monotonic() < deadline:
        threading.Event().wait(0.01)
    assert not folder.exists()
