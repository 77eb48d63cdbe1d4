"""Loads, grants and merges the manifests of one cluster, from disk or a revision, and reports all problems of a run at once.

Parsing YAML is a third of an apply, and one process uses one processor: a second process loads a half of many manifests.
"""

import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import BinaryIO, Final

from msgspec import Struct

from reconciler.app.clusters.targets import ClusterTarget
from reconciler.app.notices import Notices, TextReceiver
from reconciler.base.clock import SystemClock
from reconciler.errors import KquotaError, ManifestErrors, Problem, UsageError
from reconciler.manifest.cluster_selector import Labels
from reconciler.manifest.files import FileTexts, read_paths, unmatched_problem
from reconciler.manifest.loader import NO_CLUSTER, LoadedManifests, load_files
from reconciler.manifest.project.file import FILE_NAME
from reconciler.manifest.project.selection import for_cluster
from reconciler.manifest.syntax.yaml_parser import MAX_NODES, NodeBudget
from reconciler.quota.planner.desired_state import DesiredState, conflict_problems, merge

WORTH_SHARING: Final = 400_000
"""Characters of manifests from which on a second process saves more than it costs: about a thousand documents."""

_STOPS: Final = (signal.SIGINT, signal.SIGTERM)

_Part = tuple[LoadedManifests, int]
"""What was loaded, and the number of nodes of its files."""


def load_in_two(
    files: Sequence[tuple[str, str]],
    *,
    clusters: Mapping[str, Labels] | None = None,
    progress: Callable[[int], None] | None = None,
    least: int = WORTH_SHARING,
    count_threads: Callable[[], int] = threading.active_count,
) -> LoadedManifests | None:
    """Load the documents in these files, half of them in a second process; see :func:`load_files`.

    Args:
        files: As for :func:`load_files`.
        clusters: As for :func:`load_files`.
        progress: Called with the number of documents of this process.
        least: Characters from which on it is done.
        count_threads: Returns the number of threads of this process.

    Returns:
        ``None`` if the files are too few, this process cannot be forked, or something is wrong with the files: then
        :func:`load_files` loads them, and reports all problems.
    """
    sizes = list(accumulate(len(text) for _, text in files))
    is_forkable = hasattr(os, "fork") and count_threads() == 1
    if not is_forkable or len(files) < 2 or sizes[-1] < least or os.cpu_count() == 1:
        return None
    middle = next(at for at, size in enumerate(sizes, start=1) if 2 * size >= sizes[-1])
    middle = min(middle, len(files) - 1)
    try:
        pid, stream, blocked = _fork(lambda: _load(files[middle:], clusters, None))
    except OSError:  # no process, memory or file descriptor is left
        return None
    status = 1
    try:
        with stream:
            _ = signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            first = _load(files[:middle], clusters, progress)
            content = stream.read()
    except BaseException:  # such as Ctrl-C, of which only this process may have been told
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        raise
    finally:
        with suppress(ChildProcessError):  # whoever started this process let it ignore SIGCHLD
            _, status = os.waitpid(pid, 0)
    return _joined(first, pickle.loads(content)) if status == 0 and content else None  # noqa: S301 - from the fork


def _load(
    files: Sequence[tuple[str, str]],
    clusters: Mapping[str, Labels] | None,
    progress: Callable[[int], None] | None,
) -> _Part:
    budget = NodeBudget()
    loaded = load_files(files, clusters=clusters, budget=budget, progress=progress)
    return loaded, MAX_NODES - budget.remaining


def _fork(work: Callable[[], _Part]) -> tuple[int, BinaryIO, set[int]]:
    """Return the id of a process that does some work, the stream of its pickled result, and the signals blocked before.

    The caller restores these signals where it ends the process if one of them arrives.

    Raises:
        OSError: There is no second process.
    """
    reading, writing = os.pipe()
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)
    try:
        pid = os.fork()
    except OSError:
        _ = signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        os.close(reading)
        os.close(writing)
        raise
    if pid == 0:
        status = 1
        with suppress(BaseException):
            # A signal ends this process, and wakes no event loop of the other one.
            _ = signal.set_wakeup_fd(-1)
            for stop in _STOPS:
                _ = signal.signal(stop, signal.SIG_DFL)
            _ = signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            os.close(reading)
            with os.fdopen(writing, "wb") as stream:
                pickle.dump(work(), stream)
            status = 0
        os._exit(status)
    os.close(writing)
    return pid, os.fdopen(reading, "rb"), blocked


def _joined(first: _Part, second: _Part) -> LoadedManifests | None:
    """Join two parts; ``None`` if there is any problem, also one between them."""
    (before, nodes), (after, more_nodes) = first, second
    if before.problems or after.problems or nodes + more_nodes > MAX_NODES:
        return None
    names = (*before.by_cluster, *after.by_cluster)
    by_cluster = {name: before.of(name) + after.of(name) for name in names}
    for declarations in by_cluster.values():
        if len({declaration.document for declaration in declarations}) < len(declarations):
            return None  # A document is declared twice.
    return LoadedManifests(
        by_cluster=by_cluster,
        problems=(),
        warnings=tuple(sorted(before.warnings + after.warnings)),
        file_count=before.file_count + after.file_count,
    )


STDIN: Final = "-"
"""A path that means standard input."""


class ClusterDocuments(Struct, frozen=True, kw_only=True):
    """The manifests of one cluster."""

    desired: DesiredState
    warnings: tuple[Problem, ...]  # valid but suspicious content
    complete: bool  # whether all configured manifests were read; only then is a removal allowed


def reading(notices: Notices) -> Callable[[int], None]:
    """Return a progress callback for documents; it reports before files are opened, so that slow disks show too."""
    notices.progress("reading documents", 0, 0)
    return lambda count: notices.progress("reading documents", count, 0)


def load(
    target: ClusterTarget, paths: Sequence[str], *, progress: Callable[[int], None] | None = None
) -> ClusterDocuments:
    """Load the manifests of a target.

    Args:
        paths: Typed paths, relative to the current folder; empty = those of the project.
        progress: Called with the number of documents read so far.

    Raises:
        UsageError: No files are configured, or the cluster is ambiguous.
        ManifestErrors: Every problem of every file, conflicts included.
    """
    loaded = load_loosely(target, paths, progress=progress).checked()
    return ClusterDocuments(
        desired=merge_documents(loaded, _cluster_name(target, loaded)),
        warnings=loaded.warnings,
        complete=not paths or not target.project_cluster.manifests,
    )


def documents_or_warning(notices: TextReceiver, target: ClusterTarget) -> DesiredState | None:
    """Return what the project's manifests declare now; ``None`` if none are configured, or with a warning if one cannot be read."""
    if not target.project_cluster.manifests:
        return None
    try:
        loaded = load_loosely(target, (), read_texts(target, ())).checked()
        return merge_documents(loaded, _cluster_name(target, loaded))
    except KquotaError as error:
        notices.warning(
            f"the manifests cannot be read; the last applied values are used instead: {error}"
        )
        return None


def merge_documents(loaded: LoadedManifests, name: str) -> DesiredState:
    """Merge the documents of a cluster.

    Raises:
        ManifestErrors: Two of them claim one pair.
    """
    desired = merge(loaded.of(name), now=SystemClock().now())
    if desired.conflicts:
        raise ManifestErrors(
            conflict_problems(desired.conflicts),
            hint="two documents set the same quota key; remove it from one of them",
        )
    return desired


def load_loosely(
    target: ClusterTarget,
    paths: Sequence[str],
    texts: FileTexts | None = None,
    *,
    progress: Callable[[int], None] | None = None,
) -> LoadedManifests:
    """Load the manifests of a target with tenant grants and scope applied; problems are returned, not raised.

    Args:
        texts: Their texts, if they were read before (:func:`read_texts`).
    """
    project = target.project

    def read() -> LoadedManifests:
        file_texts = read_texts(target, paths) if texts is None else texts
        files, problems = file_texts.files, file_texts.problems
        clusters = None if project is None else project.labels
        loaded = None if problems else load_in_two(files, clusters=clusters, progress=progress)
        return loaded or load_files(files, clusters=clusters, problems=problems, progress=progress)

    places = tuple(paths) or target.project_cluster.manifests
    loaded = read() if texts is not None else target.reads.once(("manifests", places), read)
    if project is None:
        return loaded
    # Typed paths are relative to the current folder, those of the project to its folder; grants refer to the latter.
    start = Path() if paths else target.root
    return for_cluster(
        loaded,
        target.project_cluster,
        located=lambda path: Path(os.path.relpath(start / path, target.root)).as_posix(),
    )


def read_texts(target: ClusterTarget, paths: Sequence[str]) -> FileTexts:
    """Return the texts of the manifests of a target.

    Raises:
        UsageError: No files are configured.
    """
    if not paths and not target.project_cluster.manifests:
        raise UsageError(
            f"no manifests are configured for {target.display_name}",
            hint="pass files or folders, or list them in spec.manifests of the project file",
        )
    reading = target.read_limits
    if STDIN in paths:
        return _with_stdin(target, paths)
    excluded = [FILE_NAME if target.project is None else target.project.path]
    return read_paths(
        paths or target.project_cluster.manifests,
        Path() if paths else target.root,
        exclude=excluded if paths else [Path(name).name for name in excluded],
        max_files=reading.max_files,
        max_file_bytes=reading.max_file_bytes,
    )


def read_first_texts(target: ClusterTarget) -> FileTexts | None:
    """Return the texts of the project's manifests; ``None`` if it has none yet: no pattern matches a file.

    If only some patterns match no file, it is a problem as in other commands.
    """
    manifests = target.project_cluster.manifests
    texts = read_texts(target, ()) if manifests else FileTexts(files=(), problems=())
    unmatched = {unmatched_problem(pattern) for pattern in manifests}
    return None if not texts.files and set(texts.problems) == unmatched else texts


def _with_stdin(target: ClusterTarget, paths: Sequence[str]) -> FileTexts:
    """Read standard input as one more file, for ``kquota export | kquota apply -``."""
    file_paths = [path for path in paths if path != STDIN]
    file_texts = read_texts(target, file_paths) if file_paths else FileTexts(files=(), problems=())
    try:
        text = sys.stdin.buffer.read(target.read_limits.max_file_bytes + 1).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError("standard input is not UTF-8") from error
    if len(text) > target.read_limits.max_file_bytes:
        raise UsageError(f"standard input is larger than {target.read_limits.max_file_bytes} bytes")
    return FileTexts(files=(("<stdin>", text), *file_texts.files), problems=file_texts.problems)


def _cluster_name(target: ClusterTarget, loaded: LoadedManifests) -> str:
    """Return the cluster's name in the documents; if only addresses were typed they must agree on one name."""
    if selecting := loaded.of(NO_CLUSTER):
        raise UsageError(
            f"{selecting[0].document} selects clusters by their labels, and only a project file has labels",
            hint="name the project file with --project",
        )
    if target.name or not loaded.by_cluster:
        return target.name
    names = sorted(loaded.by_cluster)
    if len(names) > 1:
        raise UsageError(
            f"the documents are for {len(names)} clusters: {', '.join(names)}",
            hint="choose the cluster with --cluster",
        )
    return names[0]
