"""git commands that contact another machine: deadlines, helper processes that end, messages without secrets."""

import asyncio
import os
import subprocess
import time
from pathlib import Path

import pytest

from reconciler.errors import GitError
from reconciler.git.mirror import fetch, variables
from tests.servers.processes import HANG_SECONDS


def stuck_ssh(folder: Path) -> tuple[Path, Path]:
    """An ssh that reports its start and never ends, like one without a response from the server."""
    pid, script = folder / "pid", folder / "ssh"
    script.write_text(f"#!/bin/sh\necho $$ > {pid}\nexec sleep 1000\n")
    script.chmod(0o755)
    return script, pid


def begun(pid: Path) -> bool:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if pid.exists() and pid.read_text().strip():
            return True
    return False


def gone(pid: int) -> bool:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        state = subprocess.run(
            ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
        )
        if not state.stdout.strip() or state.stdout.startswith("Z"):
            return True
    return False


def repository(path: Path) -> Path:
    subprocess.run(["git", "init", "--quiet", "--bare", str(path)], check=True)
    return path


def test_a_remote_that_does_not_answer_ends_at_the_deadline_and_its_helper_processes_are_ended(
    tmp_path: Path,
):
    ssh, pid = stuck_ssh(tmp_path)
    top = repository(tmp_path / "mirror")
    outer = dict(os.environ) | {"GIT_SSH_COMMAND": str(ssh)}

    for deadline in (0.5, 5.0, 50.0):  # the helper process must have begun before the deadline
        with pytest.raises(GitError, match=r"ls-remote did not end within"):
            asyncio.run(fetch(top, ("ls-remote", "git@host:a"), outer=outer, deadline=deadline))
        if pid.exists() and pid.read_text():
            break
    assert gone(int(pid.read_text()))


def test_cancellation_ends_the_helper_processes(tmp_path: Path):
    ssh, pid = stuck_ssh(tmp_path)
    top = repository(tmp_path / "mirror")
    outer = dict(os.environ) | {"GIT_SSH_COMMAND": str(ssh)}

    async def run() -> None:
        task = asyncio.ensure_future(fetch(top, ("ls-remote", "git@host:a"), outer=outer))
        assert await asyncio.to_thread(begun, pid)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert gone(int(pid.read_text()))


def test_cancellation_during_the_start_ends_the_command(tmp_path: Path):
    ssh, _ = stuck_ssh(tmp_path)
    top = repository(tmp_path / "mirror")
    outer = dict(os.environ) | {"GIT_SSH_COMMAND": str(ssh)}

    async def run(turns: int) -> None:
        task = asyncio.ensure_future(fetch(top, ("ls-remote", "git@host:a"), outer=outer))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, HANG_SECONDS)

    for turns in range(8):
        asyncio.run(run(turns))


def test_a_failure_is_reported_with_the_message_of_git_without_credentials(tmp_path: Path):
    top = repository(tmp_path / "mirror")

    async def run() -> None:
        await fetch(top, ("ls-remote", "file://bot:hunter2@/no/such"))

    with pytest.raises(GitError, match=r"git ls-remote failed: ") as caught:
        asyncio.run(run())
    assert "hunter2" not in str(caught.value)


def test_endless_output_uses_bounded_memory(tmp_path: Path):
    script = tmp_path / "ssh"
    script.write_text(
        "#!/bin/sh\nhead -c 3000000 /dev/zero | tr '\\0' x >&2\necho fatal: enough >&2\nexit 1\n"
    )
    script.chmod(0o755)
    top = repository(tmp_path / "mirror")
    outer = dict(os.environ) | {"GIT_SSH_COMMAND": str(script)}

    async def run() -> None:
        await fetch(top, ("ls-remote", "git@host:a"), outer=outer)

    with pytest.raises(GitError) as caught:
        asyncio.run(run())
    assert len(str(caught.value)) < 200_000


def test_a_missing_folder_and_a_missing_git_are_distinguished(tmp_path: Path, monkeypatch):
    with pytest.raises(GitError, match="does not exist"):
        asyncio.run(fetch(tmp_path / "gone", ("ls-remote", "x")))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GitError, match="git command is not installed"):
        asyncio.run(fetch(tmp_path, ("ls-remote", "x")))


def test_settings_are_added_after_the_callers_own_and_the_transport_settings_are_kept():
    outer = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": "*",
        "GIT_SSH_COMMAND": "ssh -i key",
        "GIT_DIR": "/elsewhere",
    }
    environment = variables(outer, {"http.extraHeader": "X: y"})
    assert environment["GIT_CONFIG_COUNT"] == "2"
    assert (environment["GIT_CONFIG_KEY_1"], environment["GIT_CONFIG_VALUE_1"]) == (
        "http.extraHeader",
        "X: y",
    )
    assert environment["GIT_CONFIG_KEY_0"] == "safe.directory"
    assert environment["GIT_SSH_COMMAND"] == "ssh -i key"
    assert "GIT_DIR" not in environment
    assert "GIT_CONFIG_COUNT" not in variables({}, {})
