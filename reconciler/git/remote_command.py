"""Runs ``git`` commands that contact another machine: with a deadline, without prompts or secrets in messages.

Such a command starts helpers (ssh, git-remote-https) that outlive a killed parent and keep its pipes open, so it gets
its own session, which is killed as a whole; without a terminal git cannot prompt for a password either.
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
"""Maximum seconds for one fetch; the first one of a large history may need more."""

_MOST_WORDS: Final = 64 * 1024
"""Maximum bytes of the output of git and the remote; the end is kept."""

_SWITCHES: Final = (
    *SWITCHES,
    "-c",
    "gc.autoDetach=false",  # else maintenance would outlive the command
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
"""Variables of the caller's environment that decide how to reach the remote."""


async def fetch(
    directory: Path,
    arguments: Sequence[str],
    *,
    settings: Mapping[str, str] = MappingProxyType({}),
    repository: Mapping[str, str] = MappingProxyType({}),
    outer: Mapping[str, str] | None = None,
    deadline: float = DEADLINE_SECONDS,
) -> bytes:
    """Return standard output of one git command that contacts another machine.

    Cancelling it also kills the command and its helpers.

    Args:
        settings: Further git settings; passed in the environment, so they may be secret.
        repository: ``GIT_DIR``, or nothing if the directory decides.
        deadline: Seconds.

    Raises:
        GitError: Git is missing, took too long, or failed; credentials are hidden in the message.
    """
    process_environment = variables(os.environ if outer is None else outer, settings)
    process = await _start(directory, arguments, process_environment | dict(repository))
    assert process.stdout is not None and process.stderr is not None  # noqa: S101, PT018 - both are pipes
    try:
        async with asyncio.timeout(deadline):
            output, error_output = await asyncio.gather(
                _end_of(process.stdout), _end_of(process.stderr)
            )
            code = await process.wait()
    except TimeoutError as error:
        raise GitError(
            f"git {arguments[0]} did not end within {deadline:.0f} s",
            hint="check that the repository is reachable from this machine",
        ) from error
    finally:
        await _kill(process)
    if code != 0:
        raise _failure(arguments[0], code, error_output)
    return output


async def _start(
    directory: Path, arguments: Sequence[str], outer: Mapping[str, str]
) -> asyncio.subprocess.Process:
    """Start the command.

    If it were cancelled while starting, asyncio would kill the command alone and wait indefinitely for the pipes of
    its helpers (CPython 3.11); so the start is awaited, and then everything is killed.
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
            await _kill(await beginning)
        raise
    except OSError as error:
        if error.filename != "git":
            raise GitError(f"the directory {directory} does not exist") from error
        raise GitError("the git command is not installed", hint="install git") from error


def variables(outer: Mapping[str, str], settings: Mapping[str, str]) -> dict[str, str]:
    """Return the environment: that of every git command, variables for the remote, and settings after the caller's own."""
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
    """Return the end of a stream; the rest is read and dropped to bound memory."""
    content = b""
    while chunk := await stream.read(_MOST_WORDS):
        content = (content + chunk)[-_MOST_WORDS:]
    return content


async def _kill(process: asyncio.subprocess.Process) -> None:
    """Kill the command and everything that it started, if it still runs."""
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
