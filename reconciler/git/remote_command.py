"""Running ``git`` where it talks to another machine: a deadline that holds, no prompt, no secret in messages.

Such a command starts helpers (ssh, git-remote-https) that outlive a killed parent and keep its pipes open, so it gets
a session of its own, which is killed whole; without a terminal git cannot prompt for a password either.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from reconciler.base.redaction import redact_urls
from reconciler.errors import GitError
from reconciler.git.command import SWITCHES, environment

DEADLINE_SECONDS: Final = 120.0
"""Longest time for one fetch; a first one of a large history may need more."""

_MOST_WORDS: Final = 64 * 1024
"""Of what git and the other side say; the end is kept."""

_SWITCHES: Final = (
    *SWITCHES,
    "-c",
    "gc.autoDetach=false",  # or tidying up would go on after us
    "-c",
    "http.lowSpeedLimit=1000",
    "-c",
    "http.lowSpeedTime=30",
    "-c",
    "protocol.ext.allow=never",  # runs any program
)

_KEPT: Final = (
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH",
    "GIT_PROXY_COMMAND",
)
"""How to reach the other side is for the caller's environment to say."""


async def fetch(
    directory: Path,
    arguments: Sequence[str],
    *,
    settings: Mapping[str, str] = MappingProxyType({}),
    repository: Mapping[str, str] = MappingProxyType({}),
    outer: Mapping[str, str] | None = None,
    deadline: float = DEADLINE_SECONDS,
) -> bytes:
    """Standard output of one git command that talks to another machine.

    Cancelling it also kills the command and its helpers.

    Args:
        directory: Where to run.
        arguments: Sub-command and its arguments.
        settings: Further git settings; they are handed over in the environment, so they may be secret.
        repository: Which repository: ``GIT_DIR``, or nothing where the directory says it.
        outer: The environment; ``None`` = that of the process.
        deadline: Seconds.

    Raises:
        GitError: git is missing, took too long, or failed; without credentials in its words.
    """
    process_environment = variables(os.environ if outer is None else outer, settings)
    process = await _begun(directory, arguments, process_environment | dict(repository))
    assert process.stdout is not None and process.stderr is not None  # noqa: S101, PT018 - both are pipes
    try:
        async with asyncio.timeout(deadline):
            output, error_output = await asyncio.gather(
                _end_of(process.stdout), _end_of(process.stderr)
            )
            code = await process.wait()
    except TimeoutError as error:
        raise GitError(
            f"git {arguments[0]} gave no answer within {deadline:.0f} s",
            hint="look whether the repository can be reached from here",
        ) from error
    finally:
        await _ended(process)
    if code != 0:
        raise _failure(arguments[0], code, error_output)
    return output


async def _begun(
    directory: Path, arguments: Sequence[str], outer: Mapping[str, str]
) -> asyncio.subprocess.Process:
    """The command, running.

    Cancelled while it begins, asyncio would kill the command alone and wait for ever for the pipes that its helpers
    hold (CPython 3.11); so the beginning is waited for, and then everything is ended.
    """
    beginning = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            "git",
            *_SWITCHES,
            *arguments,
            cwd=directory,
            env=outer,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    )
    try:
        return await asyncio.shield(beginning)
    except asyncio.CancelledError:
        with contextlib.suppress(OSError):
            await _ended(await beginning)
        raise
    except OSError as error:
        if error.filename != "git":
            raise GitError(f"the directory {directory} does not exist") from error
        raise GitError("the git command is not installed", hint="install git") from error


def variables(outer: Mapping[str, str], settings: Mapping[str, str]) -> dict[str, str]:
    """The environment: that of every git command, how to reach the other side, and settings after the caller's own."""
    process_environment = environment(outer) | {
        name: outer[name] for name in _KEPT if name in outer
    }
    count = int(process_environment.get("GIT_CONFIG_COUNT", "0") or "0")
    for number, (key, value) in enumerate(settings.items(), start=count):
        process_environment[f"GIT_CONFIG_KEY_{number}"] = key
        process_environment[f"GIT_CONFIG_VALUE_{number}"] = value
    if settings:
        process_environment["GIT_CONFIG_COUNT"] = str(count + len(settings))
    return process_environment


async def _end_of(stream: asyncio.StreamReader) -> bytes:
    """The last words of a stream; the rest is read and dropped, so that long output does not fill the memory."""
    content = b""
    while chunk := await stream.read(_MOST_WORDS):
        content = (content + chunk)[-_MOST_WORDS:]
    return content


async def _ended(process: asyncio.subprocess.Process) -> None:
    """Kill the command with everything that it started, if it still runs."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    _ = await process.wait()


def _failure(name: str, code: int, error_output: bytes) -> GitError:
    lines = [
        line.strip()
        for line in error_output.decode("utf-8", "replace").splitlines()
        if line.strip()
    ]
    message_lines = [
        line for line in lines if line.startswith(("fatal:", "error:", "remote:", "ssh:"))
    ]
    words = "; ".join((message_lines or lines)[-3:]) or f"it ended with code {code}"
    return GitError(f"git {name} failed: {redact_urls(words)}")
