"""Ingests recorded use: sources from project and options, then read, store, assemble, copy for previews."""

from collections import Counter
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from reconciler.app.clusters.targets import place_of
from reconciler.app.event_loop import run
from reconciler.app.recorded_use.selection import SelectedCluster, WindowOptions, opened_lake
from reconciler.base.clock import SystemClock
from reconciler.base.text_files import read_text
from reconciler.errors import LakeError, TelemetryError, UsageError
from reconciler.evidence.analysis import rollup
from reconciler.evidence.ingest import cluster_sources, dialect_tables, file_import, server_import
from reconciler.evidence.ingest.cluster_sources import BrokerIdRule, ClusterSource
from reconciler.evidence.ingest.drop_reasons import DropCounts, DropReason
from reconciler.evidence.ingest.readers import http_config
from reconciler.evidence.ingest.sample_days import ClusterArrivals, DayReport, SampleDays
from reconciler.evidence.output.ingest_report import ClusterIngestSummary, IngestSummary
from reconciler.evidence.store import published_evidence, snapshot_import
from reconciler.evidence.store.files import table_store

if TYPE_CHECKING:
    from reconciler.base.protocols import Clock, Progress
    from reconciler.evidence.ingest.dialect import DialectTable
    from reconciler.evidence.store.lake import Lake


class IngestOverrides(Struct, frozen=True, kw_only=True):
    """Replacements of the project's settings from the command line; ``None`` = not given. Times in seconds."""

    prometheus: str | None = None
    matchers: str | None = None
    broker_id: str | None = None
    step: float | None = None
    previews: str | None = None


class IngestRequest(Struct, frozen=True, kw_only=True):
    """The request, with fields as the options."""

    lake: str
    sources: tuple[ClusterSource, ...]
    window: WindowOptions
    http_config: Path | None
    files: tuple[Path, ...]
    dialect: str
    snapshots: tuple[Path, ...]
    previews: bool
    rebuild: bool
    replace: bool = False

    @property
    def asks(self) -> bool:
        """Whether a Prometheus is queried: not if files are read, nor if days are rebuilt without a server."""
        has_server = any(source.prometheus for source in self.sources)
        return not self.files and self.wants_use and (has_server or not self.rebuild)

    @property
    def wants_use(self) -> bool:
        """Whether recorded use is read: snapshots can also be imported alone, without a Prometheus."""
        return not self.snapshots or any(source.prometheus for source in self.sources)


def source(cluster: SelectedCluster, overrides: IngestOverrides) -> ClusterSource:
    """Return the source of a cluster's recorded use: options first, then the project.

    Raises:
        TelemetryError: A setting cannot be read.
    """
    ingest_source = (
        ClusterSource(cluster=cluster.display_name, cluster_id=cluster.id)
        if cluster.settings is None
        else cluster_sources.source_of(cluster.settings)
    )
    ingest_source = replace(
        ingest_source, evidence_uri=place_of(cluster.root, ingest_source.evidence_uri)
    )
    matchers, rule, step = overrides.matchers, overrides.broker_id, overrides.step
    typed: dict[str, Any] = {
        "prometheus": overrides.prometheus,
        "matchers": None if matchers is None else cluster_sources.parsed_matchers(matchers),
        "broker_rule": None if rule is None else BrokerIdRule.parsed(rule),
        "scrape_ms": None if step is None else round(step * 1000),
        "evidence_uri": overrides.previews,
    }
    settings = {name: value for name, value in typed.items() if value is not None}
    return replace(ingest_source, **settings)


def run_ingest(work: IngestRequest, progress: "Progress") -> IngestSummary:
    """Run an ingest. A failure of one cluster is reported, and the others are processed.

    Raises:
        UsageError: Options contradict each other.
        TelemetryError: A setting or a snapshot cannot be used.
        LakeError: The lake cannot be opened_lake, or snapshots cannot be stored.
    """
    clock = SystemClock()
    if work.rebuild and not (work.files or work.asks):
        raise UsageError(
            "--rebuild needs a source",
            hint="pass files (--file) or a Prometheus server (--prometheus, telemetry.prometheus)",
        )
    for source in work.sources:
        _ = source.cadence  # a cluster without a step is refused before any read
        if work.previews and not source.evidence_uri:
            raise UsageError(
                f"--previews: no URI is configured for {source.cluster}",
                hint="set telemetry.evidenceUri, or pass --previews URI",
            )
    lake = opened_lake(work.lake, create=True)
    ids = {source.cluster_id for source in work.sources}
    documents = [snapshot_import.read(read_text(path), source=str(path)) for path in work.snapshots]
    own_documents = [document for document in documents if document.cluster_id in ids]
    new_snapshots = snapshot_import.keep(lake, own_documents)
    import_result = file_import.FileImportResult(
        arrived={cluster_id: ClusterArrivals() for cluster_id in ids}, counts=DropCounts()
    )
    if work.files:
        import_result = _from_files(lake, work, clock, progress)
    clusters = tuple(
        _ingest_cluster(
            lake,
            work,
            source,
            import_result.arrived[source.cluster_id],
            clock=clock,
            progress=progress,
        )
        for source in work.sources
    )
    return IngestSummary(
        lake=lake.store.redacted_address,
        clusters=clusters,
        snapshots=new_snapshots,
        ignored=len(documents) - len(own_documents),
        counts=import_result.counts,
        failures=import_result.failures,
    )


def _ingest_cluster(
    lake: "Lake",
    work: IngestRequest,
    source: ClusterSource,
    arrived: ClusterArrivals,
    *,
    clock: "Clock",
    progress: "Progress",
) -> ClusterIngestSummary:
    window: tuple[int, int] | None = None
    days: tuple[DayReport, ...] = ()
    published: tuple[str, date, date] | None = None
    failures: list[str] = []
    try:
        writer = SampleDays(
            lake, source.cluster_id, source.cadence, rebuild=work.rebuild, replace=work.replace
        )
        if work.asks:
            span = server_import.stretch(writer, *_typed(work, clock), rebuild=work.rebuild)
            window = span.from_ms, span.to_ms
            arrived = run(
                server_import.fetched(
                    writer,
                    source,
                    span,
                    _server_options(work),
                    clock=clock,
                    progress=progress,
                )
            )
        days = writer.reports(arrived.days)
        failures += _nothing_usable(arrived)
        if work.previews:
            published = _published(lake, source)
        rollup.update(lake, source.cluster_id)
    except (TelemetryError, LakeError) as error:
        failures.append(error.message + (f" ({error.hint})" if error.hint else ""))
    return ClusterIngestSummary(
        display_name=source.cluster,
        cluster_id=source.cluster_id,
        window=window,
        arrived=arrived,
        days=days,
        published=published,
        failures=(*arrived.failures, *failures),
    )


def _nothing_usable(arrived: ClusterArrivals) -> list[str]:
    """Return an error if days were read and no point of them could be used."""
    reports = arrived.days.values()
    if not reports or any(report.samples or report.coverage for report in reports):
        return []
    counts = Counter(arrived.counts.by_name())
    for report in reports:
        counts.update(report.counts)
    sentences = {reason.word: reason.value for reason in DropReason}
    reasons = [
        f"{number:,} {sentences.get(word, word)}"
        for word, number in counts.most_common()
        if word not in {DropReason.SERIES.word, DropReason.POINTS.word}
    ]
    return [f"nothing that was read can be used: {'; '.join(reasons[:MOST_REASONS])}"]


MOST_REASONS: Final = 4
"""Maximum number of reasons in an error about unusable points."""


def _typed(work: IngestRequest, clock: "Clock") -> tuple[int | None, int]:
    """Return begin (``None`` = where the last run ended) and end."""
    begin, end = work.window.span(clock)
    return (None if work.window.from_ms is None else begin), end


def _server_options(work: IngestRequest) -> server_import.ServerImportOptions:
    dialects, name = _dialects(work.dialect)
    config = None if work.http_config is None else http_config.read(work.http_config)
    return server_import.ServerImportOptions(
        dialects=dialects, dialect=name, config=config, sources_of_address=tuple(work.sources)
    )


def _dialects(dialect: str) -> "tuple[DialectTable, str]":
    """Return all dialects and the selected name; a file with exactly one own dialect selects it."""
    if "/" not in dialect and not dialect.endswith(".toml"):
        return dialect_tables.shipped(), dialect
    custom = dialect_tables.read(Path(dialect))
    shipped = {dialect.name for dialect in dialect_tables.shipped().all}
    names = [dialect.name for dialect in custom.all if dialect.name not in shipped]
    return custom, names[0] if len(names) == 1 else ""


def _from_files(
    lake: "Lake", work: IngestRequest, clock: "Clock", progress: "Progress"
) -> file_import.FileImportResult:
    dialects, name = _dialects(work.dialect)
    window = work.window.span(clock, 2**62) if work.window.is_given else file_import.ALWAYS
    files = file_import.FileImportRequest(
        paths=work.files,
        dialects=dialects,
        dialect=name,
        window=window,
        rebuild=work.rebuild,
        replace=work.replace,
    )
    return file_import.read(lake, work.sources, files, clock=clock, progress=progress)


def _published(lake: "Lake", source: ClusterSource) -> tuple[str, date, date]:
    """Copy the last days for previews."""
    to = table_store.opened(source.evidence_uri, create=True)
    return (to.redacted_address, *published_evidence.publish(lake, source.cluster_id, to))
