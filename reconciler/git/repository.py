"""Reads a git repository: its top, commits, ancestry, and files at a revision.

``Repository`` reads commits, ``CommitTree`` the files of one commit. A tree is listed once, and its blobs are read by
``cat-file --batch``, so that 10,000 manifests cost a few processes.

The author of a commit decides how large it is, and a small repository can name one large file many times. So sizes
are read first (``cat-file --batch-check``), each name counts, and contents are read only if the sum is accepted.
"""

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from msgspec import Struct, field

from reconciler.base.redaction import QuietRepr
from reconciler.errors import GitError
from reconciler.git.command import run

MAX_BYTES: Final = 64 * 1024 * 1024
"""Maximum size of the files that are read at a revision at a time, unless the caller says less."""

_MAX_INDEX_BYTES: Final = 128 * 1024 * 1024
"""Maximum size of all names in the index: a million files."""

_MAX_LINK_BYTES: Final = 4 * 1024 * 1024
"""Maximum size of all links that are followed at a time; a path has at most 4,096 bytes."""

_BATCH_BYTES: Final = 8 * 1024 * 1024
"""Contents that one process is asked for, unless a file is larger: they are in memory twice while they are cut."""

MAX_LINK_HOPS: Final = 40
"""Symbolic links followed for one file, as Linux does (ELOOP)."""

_LINK: Final = "120000"
_FILES: Final = frozenset({"100644", "100755", "100664"})
_FETCH_HINT: Final = (
    "this clone is shallow: fetch the history first (git fetch --unshallow; "
    "for actions/checkout set fetch-depth: 0, for GitLab CI GIT_DEPTH: 0)"
)


class Repository(QuietRepr, Struct, frozen=True, kw_only=True):
    """A clone with a work tree, or a bare repository."""

    top: Path
    # Environment of its git commands; `GIT_DIR` for a bare repository, which is never searched for.
    variables: Mapping[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def around(cls, directory: Path) -> Self:
        """Return the repository that contains a directory.

        Raises:
            GitError: There is none, or git is missing.
        """
        _, answer = run(directory, ("rev-parse", "--show-toplevel"))
        return cls(top=Path(answer.decode("utf-8", "surrogateescape").removesuffix("\n")))

    def superproject(self) -> Path | None:
        """Return the top of the repository that has this one as a submodule; ``None`` if it is not a submodule."""
        _, answer = run(self.top, ("rev-parse", "--show-superproject-working-tree"))
        outer = answer.decode("utf-8", "surrogateescape").removesuffix("\n")
        return Path(outer) if outer else None

    def commit(self, revision: str = "HEAD") -> str:
        """Return the full commit id of a revision.

        Raises:
            GitError: The revision is unknown (the hint mentions fetch-depth in a shallow clone), is not a commit, or is
                not a valid revision.
        """
        if not revision or revision.startswith("-") or not revision.isprintable():
            raise GitError(f"{revision!r} cannot be a git revision")
        code, answer = run(
            self.top,
            ("rev-parse", "--quiet", "--verify", f"{revision}^{{commit}}"),
            answers=(0, 1, 128),
            variables=self.variables,
        )
        if code != 0:
            raise GitError(
                f"git has no commit {revision!r} in {self.top}",
                hint=_FETCH_HINT
                if self.is_shallow()
                else "check the spelling, or fetch the branch or tag that has it",
            )
        return answer.decode("ascii").strip()

    def has(self, revision: str) -> bool:
        """Whether a revision is a commit of this clone; HEAD of a fresh ``git init`` is none."""
        arguments = ("cat-file", "-e", f"{revision}^{{commit}}")
        return run(self.top, arguments, answers=(0, 1, 128), variables=self.variables)[0] == 0

    def is_shallow(self) -> bool:
        """Whether this is a shallow clone."""
        arguments = ("rev-parse", "--is-shallow-repository")
        return run(self.top, arguments, variables=self.variables)[1].strip() == b"true"

    def is_ancestor(self, older: str, newer: str = "HEAD") -> bool:
        """Whether ``older`` is an ancestor of ``newer``; a commit is its own ancestor."""
        code, _ = run(
            self.top,
            ("merge-base", "--is-ancestor", self.commit(older), self.commit(newer)),
            answers=(0, 1),
            variables=self.variables,
        )
        return code == 0

    def merge_base(self, revision: str) -> str | None:
        """Return the newest common ancestor of a revision and HEAD; ``None`` if none is known."""
        code, answer = run(
            self.top,
            ("merge-base", self.commit(revision), self.commit("HEAD")),
            answers=(0, 1),
            variables=self.variables,
        )
        return answer.decode("ascii").strip() if code == 0 else None

    def tracked(self) -> frozenset[str]:
        """Return the names in the index, relative to the top."""
        _, answer = run(self.top, ("ls-files", "-z", "--cached"), max_output=_MAX_INDEX_BYTES)
        return frozenset(_text(item) for item in answer.split(b"\0") if item)

    def tree(self, revision: str = "HEAD") -> "CommitTree":
        """Return all files of a commit."""
        commit = self.commit(revision)
        _, answer = run(
            self.top, ("ls-tree", "-r", "-z", "--full-tree", commit), variables=self.variables
        )
        entries: dict[str, tuple[str, str]] = {}
        for line in re.finditer(rb"[^\0]+", answer):
            facts, _, path = line[0].partition(b"\t")
            mode, _, oid = facts.decode("ascii").split(" ")
            entries[_text(path)] = (sys.intern(mode), oid)
        return CommitTree(top=self.top, commit=commit, entries=entries, variables=self.variables)


class CommitTree(QuietRepr, Struct, frozen=True, kw_only=True):
    """The files of one commit."""

    top: Path
    commit: str
    # Path relative to the top -> (mode, object id). Must not be changed.
    entries: dict[str, tuple[str, str]]
    variables: Mapping[str, str] = field(default_factory=dict[str, str])

    def is_plain_file(self, path: str) -> bool:
        """Whether a path of this commit is a file: neither a symbolic link nor a submodule."""
        return self.entries[path][0] in _FILES

    def under(self, paths: Iterable[str]) -> tuple[str, ...]:
        """Return all file paths that are one of ``paths`` or below one, sorted; ``.`` or "" means all.

        Symbolic links are listed (``read`` follows them), and submodules, which ``read`` refuses.
        """
        prefixes = {path.removesuffix("/").removeprefix("./") for path in paths}
        everything = bool(prefixes & {"", "."})
        return tuple(
            sorted(
                path
                for path in self.entries
                if everything or any(prefix in prefixes for prefix in _prefixes(path))
            )
        )

    def sizes(self, paths: Iterable[str]) -> dict[str, int]:
        """Return the sizes of files in bytes, by the given path; links are followed inside the tree.

        Raises:
            GitError: As for ``read``; no size is too large.
        """
        oids = {path: self.entries[target][1] for path, target in self._targets(paths).items()}
        sizes = self._blob_sizes(oids)
        return {path: sizes[oid] for path, oid in oids.items()}

    def read(self, paths: Iterable[str], *, max_bytes: int = MAX_BYTES) -> dict[str, bytes]:
        """Return the contents of files, by the given path; links are followed inside the tree.

        Args:
            max_bytes: Maximum size of all files together, in which a file counts once for each path.

        Raises:
            GitError: A path is not a file of this commit, a link leaves the repository or is circular, the files are
                too large, or git failed.
        """
        return self._read_blobs(self._targets(paths), max_bytes)

    def _targets(self, paths: Iterable[str]) -> dict[str, str]:
        """Return the file that each path leads to."""
        targets = {path: path for path in paths}
        for _ in range(MAX_LINK_HOPS):
            if missing := sorted(
                target
                for target in targets.values()
                if self.entries.get(target, ("",))[0] not in {*_FILES, _LINK}
            ):
                raise GitError(
                    f"{missing[0]} is not a file of commit {self.commit[:12]}",
                    hint="nothing is read in a submodule, or through a link to a folder",
                )
            links = {
                path: target for path, target in targets.items() if self.entries[target][0] == _LINK
            }
            if not links:
                return targets
            contents = self._read_blobs(links, _MAX_LINK_BYTES)
            targets |= {path: _target(link, contents[path]) for path, link in links.items()}
        raise GitError(f"the links at {min(targets)} form a cycle")

    def _read_blobs(self, targets: Mapping[str, str], max_bytes: int) -> dict[str, bytes]:
        """Return the contents of entries, if they are small enough together."""
        oids = {path: self.entries[target][1] for path, target in sorted(targets.items())}
        sizes = self._blob_sizes(oids)
        total = 0
        for path, oid in oids.items():
            total += sizes[oid]
            if total > max_bytes:
                raise GitError(
                    f"{path} is too large at commit {self.commit[:12]}: at most {max_bytes} bytes are read at a time",
                    hint="remove large files, or name fewer files",
                )
        contents: dict[str, bytes] = {}
        batch: list[str] = []
        batch_bytes = 0
        for oid, size in sizes.items():
            if batch and batch_bytes + size > _BATCH_BYTES:
                contents |= self._batch(batch, sizes)
                batch, batch_bytes = [], 0
            batch.append(oid)
            batch_bytes += size
        contents |= self._batch(batch, sizes)
        return {path: contents[oid] for path, oid in oids.items()}

    def _blob_sizes(self, oids: Mapping[str, str]) -> dict[str, int]:
        """Return the size of each blob; each is asked for once, in the order of the paths."""
        paths = {oid: path for path, oid in oids.items()}
        lines = self._ask("--batch-check", paths).splitlines()
        sizes: dict[str, int] = {}
        for (oid, path), line in zip(paths.items(), lines, strict=True):
            words = line.split(b" ")
            if len(words) != 3 or words[1] != b"blob":
                raise GitError(
                    f"{path} cannot be read at commit {self.commit[:12]}",
                    hint="the clone lacks objects; list them with git fsck, download them with git fetch",
                )
            sizes[oid] = int(words[2])
        return sizes

    def _batch(self, oids: Sequence[str], sizes: Mapping[str, int]) -> dict[str, bytes]:
        """Run one ``cat-file --batch``: a header line, the bytes, a line feed per blob, in the requested order."""
        answer = self._ask("--batch", oids, sum(sizes[oid] for oid in oids))
        contents: dict[str, bytes] = {}
        at = 0
        for oid in oids:
            start = answer.index(b"\n", at) + 1
            contents[oid] = answer[start : start + sizes[oid]]
            at = start + sizes[oid] + 1
        return contents

    def _ask(self, mode: str, oids: Iterable[str], content_bytes: int = 0) -> bytes:
        """Return the answer of ``cat-file`` about objects."""
        request = "".join(f"{oid}\n" for oid in oids).encode("ascii")
        if not request:
            return b""
        return run(
            self.top,
            ("cat-file", mode),
            content=request,
            variables=self.variables,
            max_output=content_bytes + 2 * len(request),
        )[1]


def _prefixes(path: str) -> Iterable[str]:
    """Yield the path itself and every directory above it."""
    yield path
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def _target(link: str, content: bytes) -> str:
    """Return the target of a link, as a path from the top.

    Raises:
        GitError: It is outside the repository.
    """
    target = _text(content)
    steps = [] if target.startswith("/") else link.split("/")[:-1]
    is_outside = target.startswith("/")
    for step in target.split("/"):
        if step == ".." and not steps:
            is_outside = True
        elif step == "..":
            _ = steps.pop()
        elif step not in {"", "."}:
            steps.append(step)
    if is_outside:
        raise GitError(f"{link} is a link to {target!r}, which is outside the repository")
    return "/".join(steps)


def _text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


_FULL_ID: Final = re.compile(r"[0-9a-fA-F]{40}|[0-9a-fA-F]{64}")
_SHORT_ID: Final = re.compile(r"[0-9a-fA-F]{4,63}")

_PLACES: Final = ("refs/remotes/", "refs/heads/", "refs/tags/", "refs/")
"""Prefixes with which git resolves a short name; the likeliest meaning of a trusted branch first."""


def exact_commit(repository: Repository, revision: str, *, option: str) -> str:
    """Return the commit id of a revision, if it is unambiguous.

    Args:
        revision: A full object id, or the full name of a ref (``refs/...``).

    Raises:
        GitError: The revision is a short name or an abbreviated id, or not a commit of this clone.
    """
    if _FULL_ID.fullmatch(revision):
        commit = repository.commit(revision)
        if len(commit) == len(revision):
            return commit
    elif revision.startswith("refs/"):
        target = _target_of(repository, revision)
        if target is None:
            raise GitError(
                f"there is no ref {revision} in {repository.top}",
                hint=f"git fetch brings the branch; git for-each-ref lists what is here; {option} takes no ~, ^ or @ after a ref",
            )
        return repository.commit(target)
    raise _inexact(repository, revision, option)


def _target_of(repository: Repository, ref: str) -> str | None:
    """Return the object id of the ref of exactly this name."""
    if not ref.isprintable():
        return None
    code, answer = run(
        repository.top,
        ("show-ref", "--verify", "--hash", "--", ref),
        answers=(0, 1, 128),
        variables=repository.variables,
    )
    return answer.decode("ascii").strip() if code == 0 else None


def _inexact(repository: Repository, revision: str, option: str) -> GitError:
    meanings = [
        ref for place in _PLACES if _target_of(repository, ref := place + revision) is not None
    ]
    name = f"{option} {revision!r}"
    if meanings:
        meaning = meanings[0]
        message = (
            f"{name} is a short name: here it can mean {' or '.join(sorted(meanings))}"
            if len(meanings) > 1
            else f"{name} is a short name, and a tag or branch of the same name can take its place"
        )
        hint = f"write {meaning}, or the full commit id (git rev-parse --verify '{meaning}^{{commit}}')"
    elif revision == "HEAD":
        message = f"{name} is the revision under review"
        hint = "write the full commit id of a revision that you trust (git rev-parse HEAD prints this one)"
    elif _SHORT_ID.fullmatch(revision):
        message = (
            f"{name} is not a full commit id, and a tag or branch of this name can take its place"
        )
        hint = (
            f"write the full commit id (git rev-parse --verify '{revision}^{{commit}}' prints it)"
        )
    else:
        message = f"{name} is neither a full commit id nor the full name of a ref"
        hint = "write refs/remotes/origin/BRANCH, or the full commit id (git rev-parse --verify REF prints it)"
    return GitError(message, hint=hint)
