"""Recommends limits: tiers and pins from the project, limits by an engine, documents with their evidence.

Files of documents are one per cluster, replaced as a whole; never another file or a manifest.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from reconciler.app.clusters.documents import load_loosely, merge_documents, read_first_texts
from reconciler.app.clusters.targets import ClusterTarget, targets
from reconciler.app.notices import TextReceiver
from reconciler.app.recorded_use.selection import (
    ClusterSelection,
    EngineOptions,
    SelectedCluster,
    WindowOptions,
    opened_lake,
)
from reconciler.app.recorded_use.simulation import policy_for
from reconciler.app.requests import TargetRequest
from reconciler.base.clock import SystemClock
from reconciler.base.installation import needs
from reconciler.base.regular_files import boundary_of, check_inside
from reconciler.base.text_files import write_text
from reconciler.errors import UsageError
from reconciler.evidence.output.recommended_documents import (
    DeclaredDocuments,
    documents,
)
from reconciler.manifest.files import select
from reconciler.manifest.loader import load_files
from reconciler.quota.entity import Entity
from reconciler.quota.planner.desired_state import Declaration
from reconciler.usage.samples import DAY_MS

if TYPE_CHECKING:
    from reconciler.base.protocols import Progress
    from reconciler.evidence.analysis.recommendation import RecommendationResult


MARK: Final = "# Proposed by kquota usage recommend"
"""The first line of our files; other files are not replaced."""

SIZING_LABEL: Final = "kafka-quotas.io/sizing"
PINNED: Final = "pinned"
"""The label of a document whose entity is only reported: ``kafka-quotas.io/sizing: pinned``."""

WINDOW_MS: Final = 30 * DAY_MS


class RecommendOptions(Struct, frozen=True, kw_only=True):
    """The options of the command line."""

    lake: str
    clusters: ClusterSelection
    window: WindowOptions  # window of the evidence; its last week is held out
    engine: EngineOptions
    most: int
    folder: Path | None  # folder for documents; None = no documents

    def __post_init__(self) -> None:
        if self.folder is not None and self.clusters.ids:
            raise UsageError(
                "--out needs the name that a project gives the cluster: a document refers to it by that, not by its id",
                hint="choose with --cluster or --all from a project file, or omit --out",
            )


class RecommendTask(Struct, frozen=True, kw_only=True):
    """The validated inputs before long work."""

    clusters: tuple[SelectedCluster, ...]
    # Documents by name of the cluster; none for clusters without a name.
    declared: Mapping[str, DeclaredDocuments]
    places: Mapping[str, Path]  # files for proposals by name of the cluster; empty = no files

    @property
    def declarations(self) -> dict[str, tuple[Declaration, ...]]:
        """All documents, by cluster id."""
        declarations: dict[str, tuple[Declaration, ...]] = {}
        for cluster in self.clusters:
            cluster_declarations = self.declared[cluster.name].declarations if cluster.name else ()
            declarations[cluster.id] = declarations.get(cluster.id, ()) + cluster_declarations
        return declarations

    @property
    def pinned(self) -> frozenset[tuple[str, Entity]]:
        """Cluster id and entity whose limits are only reported."""
        return frozenset(
            (cluster_id, declaration.entity)
            for cluster_id, cluster_declarations in self.declarations.items()
            for declaration in cluster_declarations
            if (SIZING_LABEL, PINNED) in declaration.labels
        )

    def texts(self, advised: "RecommendationResult") -> Iterator[tuple[Path, str]]:
        """Yield each file with its documents; "" for none."""
        notes = {note.cluster_id: note for note in advised.report.evidence}
        for cluster in self.clusters:
            if cluster.name in self.places:
                rows = [row for row in advised.changes if row.cluster_id == cluster.id]
                text = documents(rows, self.declared[cluster.name], notes[cluster.id])
                yield self.places[cluster.name], text


class WrittenFiles(Struct, frozen=True, kw_only=True):
    """What became of the files."""

    written: tuple[Path, ...] = ()
    # Files of an earlier run, because there are no proposals any more.
    removed: tuple[Path, ...] = ()
    # Files that do not exist, because there are no proposals.
    absent: tuple[Path, ...] = ()


class RecommendOutput(Struct, frozen=True, kw_only=True):
    """The result of a run."""

    advised: "RecommendationResult"
    put: WrittenFiles


def run_recommend(
    notices: TextReceiver, options: RecommendOptions, progress: "Progress"
) -> RecommendOutput:
    """Recommend limits, and write documents if requested.

    Raises:
        KquotaError: An error of a file, the lake, or the Spark session.
    """
    needs("usage", "kquota usage recommend")
    from reconciler.evidence.analysis import recommendation
    from reconciler.evidence.analysis.results import TimeWindow

    task = task_of(notices, options)
    clock = SystemClock()
    lake = opened_lake(options.lake)
    begin, end = options.window.span(clock, WINDOW_MS)
    work = recommendation.RecommendationRequest(
        clusters=tuple(sorted({cluster.id for cluster in task.clusters})),
        window=TimeWindow(from_ms=begin, to_ms=end),
        policy=policy_for(notices, options.clusters.project, task.declarations),
        pinned=task.pinned,
        most=options.most,
        documents=bool(task.places),
        source=lake.store.redacted_address,
        now_ms=round(clock.now() * 1000),
    )
    with options.engine.opened(notices, lake, work.clusters, work.window) as engine:
        advised = recommendation.advised(engine, lake, work, progress)
    return RecommendOutput(advised=advised, put=put_files(dict(task.texts(advised))))


def task_of(notices: TextReceiver, options: RecommendOptions) -> RecommendTask:
    """Return the clusters with their documents, and the files for proposals.

    Raises:
        ManifestErrors: A file is invalid.
        UsageError: There is no project, or proposals cannot be written there.
    """
    clusters = options.clusters.select()
    names = [cluster.name for cluster in clusters if cluster.name]
    targets_by_name = _targets(options.clusters.project) if names else {}
    return RecommendTask(
        clusters=clusters,
        places={} if options.folder is None else places(options.folder, names, targets_by_name),
        declared={name: declared(notices, targets_by_name[name]) for name in names},
    )


def _targets(project: Path | None) -> dict[str, ClusterTarget]:
    return {target.name: target for target in targets(TargetRequest(project=project, every=True))}


def declared(notices: TextReceiver, target: ClusterTarget) -> DeclaredDocuments:
    """Return the documents of a cluster, which may have none yet.

    A project without manifests, or whose patterns match no file at all, is valid: limits then come from recorded use. If
    only some patterns match no file, it is an error as in other commands.

    Raises:
        ManifestErrors: A file is invalid.
    """
    manifests = target.project_cluster.manifests
    nothing = DeclaredDocuments(cluster=target.name)
    if not manifests:
        notices.note(f"{target.name}: the project names no manifests, so nothing is declared yet")
        return nothing
    texts = read_first_texts(target)
    if texts is None:
        notices.warning(
            f"{target.name}: no manifest is at {', '.join(manifests)}, so nothing is declared yet"
        )
        return nothing
    loaded = load_loosely(target, (), texts).checked()
    for warning in loaded.warnings:
        notices.warning(str(warning))
    _ = merge_documents(loaded, target.name)
    written = load_files(
        texts, clusters=None if target.project is None else target.project.labels
    ).of(target.name)
    return DeclaredDocuments(
        cluster=target.name,
        declarations=loaded.of(target.name),
        written={declaration.document: declaration for declaration in written},
    )


def places(
    folder: Path, names: Iterable[str], targets: Mapping[str, ClusterTarget]
) -> dict[str, Path]:
    """Return the file of each cluster, after checking that it may be written, before long work.

    Args:
        folder: The folder; it may be missing.
        names: The clusters, by their names in the project.
        targets: All clusters of the project, by name.

    Raises:
        UsageError: The folder cannot be written, a file there is not ours, or a plan would read it as a manifest.
    """
    try:
        check_inside(folder, boundary_of(folder, "/"))
        above = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror or error}") from error
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise UsageError(f"{folder} cannot be written: {above} is not a writable folder")
    paths_by_name = {name: folder / f"{name}.yaml" for name in names}
    for path in paths_by_name.values():
        for target in targets.values():
            _check_unread(path, target)
        _check_ours(path)
    return paths_by_name


def put_files(texts: Mapping[Path, str]) -> WrittenFiles:
    """Write each file; without proposals, remove the file of an earlier run.

    Raises:
        UsageError: A file there is not ours, before any is written; or one cannot be written.
    """
    for path in texts:
        _check_ours(path)
    written_paths: list[Path] = []
    removed: list[Path] = []
    absent: list[Path] = []
    try:
        for path, text in texts.items():
            if text:
                path.parent.mkdir(parents=True, exist_ok=True)
                write_text(path, f"{MARK}; each run replaces the whole file.\n{text}")
                written_paths.append(path)
            elif path.exists():
                path.unlink()
                removed.append(path)
            else:
                absent.append(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror or error}") from error
    return WrittenFiles(written=tuple(written_paths), removed=tuple(removed), absent=tuple(absent))


def _check_ours(path: Path) -> None:
    mark = MARK.encode()
    try:
        with path.open("rb") as file:
            begins = file.read(len(mark))
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(f"{path} cannot be replaced: {error.strerror or error}") from error
    if begins != mark:
        raise UsageError(
            f"{path} is not from kquota usage recommend, so it is not replaced",
            hint="choose another folder with --out, or move the file away",
        )


def _check_unread(path: Path, target: ClusterTarget) -> None:
    """Check that the file is not a manifest: then everything would be declared twice."""
    absolute = os.path.normpath(path.absolute())
    names = [
        Path(absolute).as_posix(),
        Path(os.path.relpath(absolute, target.root.absolute())).as_posix(),
    ]
    if select(target.project_cluster.manifests, names).names:
        raise UsageError(
            f"{path} would be one of the manifests of {target.name}, so its content would be declared twice",
            hint="choose a folder outside of spec.manifests with --out; move accepted documents into spec.manifests",
        )
