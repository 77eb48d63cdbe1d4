"""A bare copy of one branch, updated by fetching from a folder or a URL; it keeps the commit in use.

No message and no command line has credentials.

Commands that contact another machine have a deadline, no prompts, and no secrets in messages.
"""

import asyncio
import base64
import contextlib
import os
import re
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, Self
from urllib.parse import unquote, urlsplit, urlunsplit

from msgspec import Struct

from reconciler.base.durable_files import make_private_folder
from reconciler.base.redaction import QuietRepr, redact_url, redact_urls, remember
from reconciler.errors import GitError
from reconciler.git.command import SWITCHES, environment, run
from reconciler.git.repository import CommitTree, Repository

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


HEAD: Final = "refs/kquota/head"
KEPT: Final = "refs/kquota/kept"
"""Ref that keeps a commit from garbage collection after the branch was rewritten without it."""

_BRANCH: Final = re.compile(
    r"(?!-)(?!.*(?:\.\.|//|@\{|\.lock(?:/|$)|[/.]$))[^\s~^:?*\[\\\x00-\x1f\x7f]+"
)


_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_SCP: Final = re.compile(
    r"(?:[^/:@\s]+@)?[^/:@\s]{2,}:(?!:)"
)  # git@host:path; one letter would be a drive
_TRANSPORTS: Final = ("https", "http", "ssh", "git", "file")


class GitSource(QuietRepr, Struct, frozen=True, kw_only=True):
    """A repository to fetch from."""

    address: str  # the address for git; never contains a password
    # `Authorization` for an https address with a user and a password or token; hidden.
    header: str = ""

    @classmethod
    def of(cls, text: str, *, start: Path) -> Self:
        """Parse a source, as ``git clone`` would.

        Args:
            text: A folder, ``https://…``, ``ssh://…``, ``git@host:path`` or ``file://…``.

        Raises:
            GitError: It is none of these; the text is not quoted if it may contain a password.
        """
        if not text or text.startswith("-") or not text.isprintable():
            raise GitError("this is not a valid repository URL")
        if _URL.match(text):
            return cls._of_url(text)
        folder = (start / text).absolute()
        if not folder.is_dir():
            if _SCP.match(text):
                return cls(address=text)
            if "::" in text:
                raise GitError("programs as transports (NAME::ADDRESS) are not run")
            raise GitError(
                f"there is no folder {folder}", hint="name a clone, a bare repository or a URL"
            )
        return cls(address=str(folder))

    @classmethod
    def _of_url(cls, text: str) -> Self:
        parts = urlsplit(text)
        if parts.scheme not in _TRANSPORTS:
            raise GitError(
                f"repositories are not fetched by {parts.scheme}://",
                hint=f"known are {', '.join(_TRANSPORTS)} and user@host:path",
            )
        if parts.password is None and not (parts.username and parts.scheme in {"http", "https"}):
            return cls(address=text)
        if parts.scheme != "https":
            raise GitError(
                f"a password in a {parts.scheme}:// URL is visible on the network or in the process list",
                hint="use https, or an ssh key",
            )
        credentials = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
        header = "Authorization: Basic " + base64.b64encode(credentials.encode()).decode("ascii")
        remember(unquote(parts.password or ""), header.rpartition(" ")[2])
        bare = parts.netloc.rpartition("@")[2]
        return cls(address=urlunsplit(parts._replace(netloc=bare)), header=header)

    @property
    def variables(self) -> Mapping[str, str]:
        """The git settings with the credentials: passed in the environment, which other users cannot read."""
        if not self.header:
            return {}
        parts = urlsplit(self.address)
        return {f"http.{parts.scheme}://{parts.netloc}/.extraHeader": self.header}


class GitMirror(Struct, frozen=True, kw_only=True):
    """A bare repository that follows one branch.

    Raises:
        GitError: The name is not valid for a branch.
    """

    folder: Path  # its folder; created by the first fetch
    source: GitSource
    branch: str = ""  # the branch; "" = the default branch of the source
    deadline: float = DEADLINE_SECONDS  # seconds for one fetch

    def __post_init__(self) -> None:
        if self.branch and not _BRANCH.fullmatch(self.branch):
            raise GitError(f"{self.branch!r} cannot be the name of a branch")

    @property
    def display_name(self) -> str:
        """The source and branch, for messages."""
        return f"{redact_url(self.source.address)} ({self.branch or 'default branch'})"

    async def fetch(self) -> str:
        """Fetch the branch with its history; return its newest commit.

        Raises:
            GitError: The source cannot be reached or has no such branch, or it took too long.
        """
        self.prepare()
        remote_ref = f"refs/heads/{self.branch}" if self.branch else "HEAD"
        _ = await fetch(
            self.folder,
            (
                "fetch",
                "--quiet",
                "--no-tags",
                "--no-write-fetch-head",
                "--end-of-options",
                self.source.address,
                f"+{remote_ref}:{HEAD}",
            ),
            settings=self.source.variables,
            repository=self._variables,
            deadline=self.deadline,
        )
        return self.commits.commit(HEAD)

    def prepare(self) -> None:
        """Create the repository, if it does not exist yet.

        Raises:
            GitError: The folder cannot be created.
        """
        if (self.folder / "HEAD").exists():
            return
        try:
            make_private_folder(self.folder)
        except OSError as error:
            raise GitError(f"{self.folder} cannot be made: {error.strerror}") from error
        _ = run(self.folder, ("init", "--quiet", "--bare", "--template="))

    def tree(self, commit: str) -> CommitTree:
        """Return the files of a commit.

        Raises:
            GitError: The mirror does not have it.
        """
        return self.commits.tree(commit)

    def keep(self, commit: str) -> None:
        """Keep a commit, instead of the one kept before."""
        _ = run(self.folder, ("update-ref", KEPT, commit), variables=self._variables)

    def has(self, commit: str) -> bool:
        """Whether the mirror has a commit."""
        return (self.folder / "HEAD").exists() and self.commits.has(commit)

    def follows(self, newer: str, older: str) -> bool:
        """Whether ``older`` is an ancestor of ``newer``; never if the mirror lacks one of them."""
        return self.has(older) and self.has(newer) and self.commits.is_ancestor(older, newer)

    @property
    def commits(self) -> Repository:
        """The repository, for reading commits and files; it has no work tree."""
        return Repository(top=self.folder, variables=self._variables)

    @property
    def _variables(self) -> dict[str, str]:
        """Git uses a bare repository only if it is given explicitly (``safe.bareRepository=explicit``)."""
        return {"GIT_DIR": str(self.folder.absolute())}
