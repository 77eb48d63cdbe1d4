"""Stores one file under a separate git ref, with its history; never part of a branch. Implements ``ports.RefStore``.

Each write is a commit on top of the one that was read, so ``git log refs/kquota/…`` shows who changed what. Two
writers cannot overwrite each other: ``update-ref`` and ``push --force-with-lease`` check the old value.
"""

from functools import cached_property
from pathlib import Path
from typing import Final

from msgspec import Struct

from reconciler.errors import GitError, InventoryLocked
from reconciler.git.command import run

_REMOTE: Final = "origin"
_NOTHING: Final = "0" * 40
_MAX_BYTES: Final = 64 * 1024 * 1024
"""Maximum size of the file; records of 300,000 limits, and code hosts refuse files of 100 MB."""

_AUTHOR: Final = {
    "GIT_AUTHOR_NAME": "kquota",
    "GIT_AUTHOR_EMAIL": "kquota@localhost",
    "GIT_COMMITTER_NAME": "kquota",
    "GIT_COMMITTER_EMAIL": "kquota@localhost",
}


class GitRefs(Struct, frozen=True, kw_only=True, dict=True):
    """Refs of one repository; its remote ``origin``, if there is one, has the authoritative ones."""

    top: Path  # any directory inside the repository
    file: str = "inventory.json"

    def read(self, ref: str) -> tuple[str, bytes] | None:
        """Return commit id and content, ``None`` if there is no such ref.

        Raises:
            GitError: The remote cannot be reached, or the ref has no such file.
        """
        commit = self._fetch(ref) if self._is_shared else self._local(ref)
        if commit == _NOTHING:
            return None
        _, content = run(
            self.top, ("cat-file", "blob", f"{commit}:{self.file}"), max_output=_MAX_BYTES
        )
        return commit, content

    def write(self, ref: str, content: bytes, *, expected: str | None, message: str) -> str:
        """Write ``content`` and return the id of its commit.

        Args:
            ref: Full name, ``refs/kquota/…``.
            expected: Commit id that was read, ``None`` if there was no ref.

        Raises:
            InventoryLocked: Another process wrote meanwhile; nothing was written.
            GitError: Any other error of git.
        """
        old = expected or _NOTHING
        blob = self._write_object(("hash-object", "-w", "--stdin"), content)
        tree = self._write_object(("mktree", "-z"), f"100644 blob {blob}\t{self.file}\0".encode())
        parents = () if expected is None else ("-p", expected)
        commit = self._write_object(("commit-tree", tree, *parents, "-m", message), b"")
        if self._is_shared:
            self._push(ref, commit, expected or "")
            old = self._local(ref)
        if run(self.top, ("update-ref", ref, commit, old), answers=(0, 1, 128))[0] != 0:
            raise _overtaken(ref)
        return commit

    @cached_property
    def _is_shared(self) -> bool:
        """Whether there is a remote; git is asked once, since a run reads and writes several times."""
        _, answer = run(self.top, ("remote",))
        return _REMOTE.encode() in answer.split()

    def _write_object(self, arguments: tuple[str, ...], content: bytes) -> str:
        return (
            run(self.top, arguments, content=content, variables=_AUTHOR)[1].decode("ascii").strip()
        )

    def _local(self, ref: str) -> str:
        code, answer = run(
            self.top, ("show-ref", "--verify", "--hash", "--", ref), answers=(0, 1, 128)
        )
        return answer.decode("ascii").strip() if code == 0 else _NOTHING

    def _fetch(self, ref: str) -> str:
        """Fetch and return the remote's commit; zeros if the remote has no such ref."""
        commit = self._at_remote(ref)
        if commit != _NOTHING:
            _ = run(self.top, ("fetch", "--quiet", "--no-tags", _REMOTE, f"+{ref}:{ref}"))
        return commit

    def _at_remote(self, ref: str) -> str:
        """Return the remote's commit of the ref of exactly this name; zeros if there is none.

        ``ls-remote`` and ``push`` match the ends of names: a branch ``refs/kquota/x`` (``refs/heads/refs/kquota/x``)
        would be read and written instead.

        Raises:
            GitError: The remote has a branch or tag of the same name.
        """
        _, answer = run(self.top, ("ls-remote", _REMOTE, ref))
        pairs = [line.partition("\t") for line in answer.decode("utf-8", "replace").splitlines()]
        commits = {name: commit for commit, _, name in pairs}
        matching_names = sorted(name for name in commits if name.endswith(f"/{ref}"))
        if matching_names:
            raise GitError(
                f"{_REMOTE} has {matching_names[0]}, which git takes for {ref}",
                hint=f"delete it: git push {_REMOTE} :{matching_names[0]}",
            )
        return commits.get(ref, _NOTHING)

    def _push(self, ref: str, commit: str, expected: str) -> None:
        lease = f"--force-with-lease={ref}:{expected}"
        code, _ = run(
            self.top,
            ("push", "--quiet", "--no-verify", lease, _REMOTE, f"{commit}:{ref}"),
            answers=(0, 1, 128),
        )
        if code == 0:
            return
        if self._at_remote(ref) != (expected or _NOTHING):
            raise _overtaken(ref)
        raise GitError(
            f"{ref} cannot be pushed to {_REMOTE}",
            hint="the job's token needs the right to push (GitHub: contents: write)",
        )


def _overtaken(ref: str) -> InventoryLocked:
    return InventoryLocked(
        f"{ref} was written by another process in the meantime",
        holder="the author of its newest commit",
        hint="run one writer per cluster at a time, then start again",
    )
