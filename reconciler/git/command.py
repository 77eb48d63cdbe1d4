"""Runs ``git`` reproducibly: environment, switches, deadlines, and the project's error messages.

Settings of a repository or a shell must not change what we read or run a program:

- ``GIT_DIR``, ``GIT_INDEX_FILE`` and similar variables (set inside hooks) are removed, so that the directory decides;
- hooks, the file-system monitor, pagers, prompts and lazy fetches are off;
- pathspecs are literal, replace refs are ignored, no lock is taken;
- a bare repository is used only if given explicitly: one among the files of a checkout is not used.

The user's own configuration stays readable: git reads ``safe.directory`` only from there.
"""

import os
import selectors
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import IO, Final

from reconciler.errors import GitError

DEADLINE_SECONDS: Final = 60.0
"""Maximum seconds for one command; reading a tree of 100,000 files takes about one second."""

MAX_OUTPUT_BYTES: Final = 32 * 1024 * 1024
"""Maximum output of one command; the names of 250,000 files. The repository decides what git writes."""

_PIPE_BYTES: Final = 4096
"""A pipe that is ready takes this many bytes without waiting (PIPE_BUF on Linux)."""

_READ_BYTES: Final = 1 << 18

SWITCHES: Final = (
    "--no-pager",
    "--no-optional-locks",
    "--no-replace-objects",
    "--literal-pathspecs",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.quotePath=false",
    "-c",
    "submodule.recurse=false",
    "-c",
    "safe.bareRepository=explicit",
)

_KEPT: Final = frozenset(
    {
        "GIT_CEILING_DIRECTORIES",
        "GIT_CONFIG_COUNT",
        "GIT_CONFIG_GLOBAL",
        "GIT_CONFIG_NOSYSTEM",
        "GIT_CONFIG_SYSTEM",
        "GIT_EXEC_PATH",
    }
)
_KEPT_PREFIXES: Final = ("GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_")

_FORCED: Final = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "true",
    "SSH_ASKPASS": "true",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "LC_ALL": "C",
}

# git's message -> (error message, hint). Searched in order in git's standard error.
_KNOWN: Final = (
    (
        "not a git repository",
        "this is not inside a git repository",
        "run it in a clone of the repository that contains the manifests",
    ),
    (
        "dubious ownership",
        "git refuses a repository that belongs to another user",
        "allow it once: git config --global --add safe.directory DIRECTORY",
    ),
    (
        "must be run in a work tree",
        "this repository is bare and has no work tree",
        "run it in a clone with files",
    ),
    (
        "safe.bareRepository",
        "this folder is a bare repository, which is not used implicitly",
        "run it in a clone with files; if this is a clone, its files contain a bare repository: remove it there",
    ),
)


def environment(outer: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for ``git``: the caller's own without those that redirect or run something."""
    variables = {
        name: value
        for name, value in outer.items()
        if not name.startswith("GIT_") or name in _KEPT or name.startswith(_KEPT_PREFIXES)
    }
    return variables | _FORCED


def run(
    directory: Path,
    arguments: Sequence[str],
    *,
    content: bytes = b"",
    answers: Sequence[int] = (0,),
    variables: Mapping[str, str] = MappingProxyType({}),
    max_output: int = MAX_OUTPUT_BYTES,
) -> tuple[int, bytes]:
    """Return exit code and standard output of one git command in a directory.

    Args:
        arguments: Sub-command and its arguments; never a shell line.
        answers: Expected exit codes; any other is an error.
        variables: Further environment variables, such as the author of a commit.
        max_output: Maximum bytes of standard output; git is ended when it writes more.

    Raises:
        GitError: Git is missing, took too long, wrote too much, or failed; with git's last lines.
    """
    command = ["git", *SWITCHES, *arguments]
    try:
        with subprocess.Popen(  # noqa: S603 - no shell, and a revision never starts with a dash
            command,
            cwd=directory,
            env={**environment(os.environ), **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        ) as process:
            try:
                output, messages = _exchange(process, arguments, content, max_output)
            except BaseException:
                process.kill()
                raise
    except FileNotFoundError as error:
        if not directory.is_dir():
            raise GitError(f"the directory {directory} does not exist") from error
        raise GitError(
            "the git command is not installed",
            hint="install git, which reads revisions and records in a git ref",
        ) from error
    except NotADirectoryError as error:
        raise GitError(f"{directory} is not a directory") from error
    except subprocess.TimeoutExpired as error:
        raise GitError(
            f"git {arguments[0]} did not end within {DEADLINE_SECONDS:.0f} s",
            hint="check the file system of the repository",
        ) from error
    if process.returncode not in answers:
        raise _failure(directory, arguments[0], process.returncode, messages)
    return process.returncode, output


def _exchange(
    process: "subprocess.Popen[bytes]", arguments: Sequence[str], content: bytes, max_output: int
) -> tuple[bytes, bytes]:
    """Write standard input while both outputs are read, and wait for the end; of the messages the end is kept.

    Raises:
        GitError: The output is longer than ``max_output`` bytes.
        subprocess.TimeoutExpired: The command did not end in time.
    """
    assert process.stdin and process.stdout and process.stderr  # noqa: S101, PT018 - all are pipes
    deadline = time.monotonic() + DEADLINE_SECONDS
    unsent, output, messages = memoryview(content), bytearray(), bytearray()
    with selectors.DefaultSelector() as selector:
        _ = selector.register(process.stdin, selectors.EVENT_WRITE)
        _ = selector.register(process.stdout, selectors.EVENT_READ, output)
        _ = selector.register(process.stderr, selectors.EVENT_READ, messages)
        while selector.get_map():
            ready = selector.select(deadline - time.monotonic())
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(arguments, DEADLINE_SECONDS)
            for key, _ in ready:
                if key.fileobj is process.stdin:
                    unsent = _feed(process.stdin, unsent)
                    is_open = bool(unsent)
                else:
                    chunk = os.read(key.fd, _READ_BYTES)
                    key.data.extend(chunk)
                    is_open = bool(chunk)
                if not is_open:
                    _ = selector.unregister(key.fileobj)
                    if key.fileobj is process.stdin:
                        process.stdin.close()
            del messages[:-_READ_BYTES]
            if len(output) > max_output:
                raise GitError(
                    f"the output of git {' '.join(arguments)} is longer than {max_output} bytes",
                    hint="the commit has too many files, or one that is too large",
                )
    _ = process.wait(max(0.0, deadline - time.monotonic()))
    return bytes(output), bytes(messages)


def _feed(pipe: IO[bytes], unsent: memoryview) -> memoryview:
    """Write what fits; return the rest, nothing if git no longer reads."""
    try:
        return unsent[pipe.write(unsent[:_PIPE_BYTES]) :]
    except BrokenPipeError:
        return unsent[:0]


def _failure(directory: Path, name: str, code: int, stderr: bytes) -> GitError:
    message = stderr.decode("utf-8", "replace").strip()
    for words, sentence, hint in _KNOWN:
        if words in message:
            return GitError(
                f"{directory}: {sentence}", hint=hint.replace("DIRECTORY", str(directory))
            )
    last = message.splitlines()[-1] if message else f"it ended with code {code}"
    return GitError(f"git {name} failed in {directory}: {last.removeprefix('fatal: ')}")
