"""Loads, grants and merges the manifests of one cluster, from disk or a revision, and reports all problems of a run at once."""

import os
import sys
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

from msgspec import Struct

from reconciler.app.clusters.targets import ClusterTarget
from reconciler.app.notices import Notices, TextReceiver
from reconciler.base.clock import SystemClock
from reconciler.errors import KquotaError, ManifestErrors, Problem, UsageError
from reconciler.manifest.files import MAX_FILE_BYTES, FileTexts, read_paths, unmatched_problem
from reconciler.manifest.loader import NO_CLUSTER, LoadedManifests, load_files
from reconciler.manifest.project.file import FILE_NAME
from reconciler.manifest.project.selection import for_cluster
from reconciler.quota.planner.desired_state import DesiredState, conflict_problems, merge

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
        clusters = None if project is None else project.labels
        return load_files(
            file_texts, clusters=clusters, problems=file_texts.problems, progress=progress
        )

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
    if STDIN in paths:
        return _with_stdin(target, paths)
    excluded = [FILE_NAME if target.project is None else target.project.path]
    return read_paths(
        paths or target.project_cluster.manifests,
        Path() if paths else target.root,
        exclude=excluded if paths else [Path(name).name for name in excluded],
    )


def read_first_texts(target: ClusterTarget) -> FileTexts | None:
    """Return the texts of the project's manifests; ``None`` if it has none yet: no pattern matches a file.

    If only some patterns match no file, it is a problem as in other commands.
    """
    manifests = target.project_cluster.manifests
    texts = read_texts(target, ()) if manifests else FileTexts()
    unmatched = {unmatched_problem(pattern) for pattern in manifests}
    return None if not texts.names and set(texts.problems) == unmatched else texts


def _with_stdin(target: ClusterTarget, paths: Sequence[str]) -> FileTexts:
    """Read standard input as one more file, for ``kquota export | kquota apply -``."""
    file_paths = [path for path in paths if path != STDIN]
    file_texts = read_texts(target, file_paths) if file_paths else FileTexts()
    try:
        text = sys.stdin.buffer.read(MAX_FILE_BYTES + 1).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError("standard input is not UTF-8") from error
    if len(text) > MAX_FILE_BYTES:
        raise UsageError(f"standard input is larger than {MAX_FILE_BYTES} bytes")
    return FileTexts(
        names=("<stdin>", *file_texts.names),
        problems=file_texts.problems,
        texts=lambda: chain([("<stdin>", text)], file_texts),
    )


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
