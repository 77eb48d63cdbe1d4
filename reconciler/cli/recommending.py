"""What ``kquota spark recommend`` does: tiers and marks from the project, limits by Spark, documents with their evidence."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from reconciler.cli.console import Console
from reconciler.cli.documents import load_loosely, merged, read_texts
from reconciler.cli.extras import needs
from reconciler.cli.options import Where
from reconciler.cli.recommended_documents import Declared, documents
from reconciler.cli.recommended_files import Put, places, put
from reconciler.cli.simulating import opened, policy_for
from reconciler.cli.spark_options import Chosen, Clusters, Window
from reconciler.cli.spark_running import Running
from reconciler.cli.where import Target, targets
from reconciler.client.clock import SystemClock
from reconciler.errors import UsageError
from reconciler.manifest.files import unmatched_problem
from reconciler.quota.desired import Declaration
from reconciler.quota.entity import Entity
from reconciler.usage.samples import DAY_MS

if TYPE_CHECKING:
    from reconciler.spark.jobs.recommend import Advised, Work

SIZING_LABEL: Final = "kafka-quotas.io/sizing"
PINNED: Final = "pinned"
"""The label of a document whose entity is only reported on: ``kafka-quotas.io/sizing: pinned``."""

WINDOW_MS: Final = 30 * DAY_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What was typed.

    Attributes:
        lake: Its address.
        clusters: Which clusters.
        window: Of evidence; the last week of it is held out.
        running: Where Spark runs.
        most: So many rows are shown.
        out: Where documents go; ``None`` = nowhere.
    """

    lake: str
    clusters: Clusters
    window: Window
    running: Running
    most: int
    out: Path | None

    def __post_init__(self) -> None:
        if self.out is not None and self.clusters.ids:
            raise UsageError(
                "--out needs the name that a project gives the cluster: a document refers to it by that, not by its id",
                hint="choose with --cluster or --all from a project file, or leave --out away",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What is to be done, before Spark begins; everything that people can get wrong was looked at.

    Attributes:
        chosen: The clusters.
        declared: What documents say, by name of the cluster; nothing of clusters without a name.
        places: Where proposals go, by name of the cluster; empty = nowhere.
    """

    chosen: tuple[Chosen, ...]
    declared: Mapping[str, Declared]
    places: Mapping[str, Path]

    @property
    def declarations(self) -> dict[str, tuple[Declaration, ...]]:
        """All documents, by cluster id."""
        found: dict[str, tuple[Declaration, ...]] = {}
        for one in self.chosen:
            several = self.declared[one.name].declarations if one.name else ()
            found[one.id] = found.get(one.id, ()) + several
        return found

    @property
    def pinned(self) -> frozenset[tuple[str, Entity]]:
        """Cluster id and entity whose limits are only reported."""
        return frozenset(
            (cluster_id, one.entity)
            for cluster_id, several in self.declarations.items()
            for one in several
            if (SIZING_LABEL, PINNED) in one.labels
        )

    def texts(self, advised: "Advised") -> Iterator[tuple[Path, str]]:
        """Each file with its documents; "" for none."""
        notes = {one.cluster_id: one for one in advised.report.evidence}
        for one in self.chosen:
            if one.name in self.places:
                rows = [row for row in advised.changes if row.cluster_id == one.id]
                text = documents(rows, self.declared[one.name], notes[one.id])
                yield self.places[one.name], text


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What came of it.

    Attributes:
        advised: Report and changes.
        put: Files with documents.
    """

    advised: "Advised"
    put: Put


def done(console: Console, given: Given) -> Done:
    """Size, and write documents if that was asked for.

    Raises:
        KquotaError: A file, the lake, or the session.
    """
    needs("spark", "kquota spark recommend")
    from reconciler.spark import running
    from reconciler.spark.job import Job
    from reconciler.spark.jobs import recommend

    task = task_of(console, given)
    work = _work(console, given, task)
    job = Job(name="recommend", summary="", settings=recommend.Work, run=recommend.advised)
    advised: Advised = running.run(job, given.lake, given.running.settings(), work)
    return Done(advised=advised, put=put(dict(task.texts(advised))))


def _work(console: Console, given: Given, task: Task) -> "Work":
    from reconciler.spark.jobs.recommend import Work

    clock = SystemClock()
    begin, end = given.window.span(clock, WINDOW_MS)
    return Work(
        clusters=tuple(sorted({one.id for one in task.chosen})),
        from_ms=begin,
        to_ms=end,
        policy=policy_for(console, given.clusters.project, task.declarations),
        pinned=task.pinned,
        most=given.most,
        documents=bool(task.places),
        source=opened(given.lake).store.shown,
        now_ms=round(clock.now() * 1000),
    )


def task_of(console: Console, given: Given) -> Task:
    """The clusters with their documents, and where proposals go.

    Raises:
        ManifestErrors: Something is wrong with a file.
        UsageError: There is no project, or proposals cannot go there.
    """
    chosen = given.clusters.chosen()
    names = [one.name for one in chosen if one.name]
    found = _targets(given.clusters.project) if names else {}
    return Task(
        chosen=chosen,
        places={} if given.out is None else places(given.out, names, found),
        declared={name: declared(console, found[name]) for name in names},
    )


def _targets(project: Path | None) -> dict[str, Target]:
    where = Where(
        project=project, cluster=None, every=True, bootstrap_server=None, command_config=None,
        config_from=None, timeout=None,
    )  # fmt: skip
    return {one.name: one for one in targets(where)}


def declared(console: Console, target: Target) -> Declared:
    """What the documents of a cluster say; nothing, where there are none yet.

    A project without manifests, or whose paths are all still empty, is how quotas begin: limits come from recorded
    use then. Where some paths hold files and others do not, that is a mistake as everywhere.

    Raises:
        ManifestErrors: Something is wrong with a file.
    """
    manifests = target.chosen.manifests
    nothing = Declared(cluster=target.name)
    if not manifests:
        console.note(f"{target.name}: the project names no manifests, so nothing is declared yet")
        return nothing
    texts = read_texts(target, ())
    if not texts.files and set(texts.problems) == {unmatched_problem(one) for one in manifests}:
        console.warning(f"{target.name}: no manifest is at {', '.join(manifests)}, so nothing is declared yet")  # fmt: skip
        return nothing
    loaded = load_loosely(target, (), texts).checked()
    for warning in loaded.warnings:
        console.warning(str(warning))
    _ = merged(loaded, target.name)
    return Declared(
        cluster=target.name, declarations=loaded.of(target.name), texts=dict(texts.files)
    )
