"""A bare copy of one branch, updated by fetching; it keeps the commit in use."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reconciler.base.redaction import redact_url
from reconciler.errors import GitError
from reconciler.git.command import run
from reconciler.git.remote_command import DEADLINE_SECONDS, fetch
from reconciler.git.repository import CommitTree, Repository
from reconciler.git.source import GitSource

HEAD: Final = "refs/kquota/head"
KEPT: Final = "refs/kquota/kept"
"""Ref that keeps a commit from garbage collection after the branch was rewritten without it."""

_BRANCH: Final = re.compile(
    r"(?!-)(?!.*(?:\.\.|//|@\{|\.lock(?:/|$)|[/.]$))[^\s~^:?*\[\\\x00-\x1f\x7f]+"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GitMirror:
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
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
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
        """Whether ``older`` is an ancestor of ``newer``."""
        return self.has(older) and self.commits.is_ancestor(older, newer)

    @property
    def commits(self) -> Repository:
        """The repository, for reading commits and files; it has no work tree."""
        return Repository(top=self.folder, variables=self._variables)

    @property
    def _variables(self) -> dict[str, str]:
        """Git uses a bare repository only if it is given explicitly (``safe.bareRepository=explicit``)."""
        return {"GIT_DIR": str(self.folder.absolute())}
