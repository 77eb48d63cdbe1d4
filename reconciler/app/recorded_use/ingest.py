"""Ingests recorded use: sources from project and options, then read, store, assemble, copy for previews."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from reconciler.app.clusters.targets import place_of
from reconciler.app.event_loop import run
from reconciler.app.notices import TextReceiver
from reconciler.app.recorded_use.selection import (
    EVIDENCE,
    IngestOptions,
    SelectedCluster,
    opened_lake,
)
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


def source(cluster: SelectedCluster, options: IngestOptions) -> ClusterSource:
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
    matchers, rule, step = options.matchers, options.broker_id, options.step
    typed: dict[str, Any] = {
        "prometheus": options.prometheus,
        "matchers": None if matchers is None else cluster_sources.parsed_matchers(matchers),
        "broker_rule": None if rule is None else BrokerIdRule.parsed(rule),
        "scrape_ms": None if step is None else round(step * 1000),
        "evidence_uri": None if options.previews == EVIDENCE else options.previews,
    }
    settings = {name: value for name, value in typed.items() if value is not None}
    return replace(ingest_source, **settings)


def _sources(notices: TextReceiver, options: IngestOptions) -> tuple[ClusterSource, ...]:
    """Return the sources of the selected clusters; of all clusters of a project, of those with telemetry."""
    selected = options.clusters.select()
    if options.clusters.every and options.prometheus is None:
        configured = [
            cluster for cluster in selected if cluster.settings and cluster.settings.telemetry
        ]
        for cluster in selected:
            if cluster not in configured:
                notices.warning(
                    f"{cluster.display_name} has no telemetry in the project and is skipped"
                )
        if not configured:
            raise UsageError(
                "no cluster of the project has telemetry",
                hint="set telemetry (prometheus, scrapeStep) of a cluster, or pass --cluster",
            )
        selected = tuple(configured)
    return tuple(source(cluster, options) for cluster in selected)


def _is_server_asked(options: IngestOptions, sources: Iterable[ClusterSource]) -> bool:
    """Whether a Prometheus is queried: not if files are read, nor if days are rebuilt or snapshots imported without a server."""
    has_server = any(source.prometheus for source in sources)
    return not options.files and (has_server or not (options.rebuild or options.snapshots))


def run_ingest(
    notices: TextReceiver, options: IngestOptions, progress: "Progress"
) -> IngestSummary:
    """Run an ingest. A failure of one cluster is reported, and the others are processed.

    Raises:
        UsageError: Options contradict each other.
        TelemetryError: A setting or a snapshot cannot be used.
        LakeError: The lake cannot be opened, or snapshots cannot be stored.
    """
    if options.files and (options.prometheus or options.http_config):
        raise UsageError(
            "--file excludes --prometheus and --http-config",
            hint="ingest the files and the server in two runs",
        )
    clock, sources = SystemClock(), _sources(notices, options)
    is_server_asked = _is_server_asked(options, sources)
    if options.rebuild and not (options.files or is_server_asked):
        raise UsageError(
            "--rebuild needs a source",
            hint="pass files (--file) or a Prometheus server (--prometheus, telemetry.prometheus)",
        )
    for source in sources:
        _ = source.cadence  # a cluster without a step is refused before any read
        if options.previews is not None and not source.evidence_uri:
            raise UsageError(
                f"--previews: no URI is configured for {source.cluster}",
                hint="set telemetry.evidenceUri, or pass --previews URI",
            )
    lake = opened_lake(options.lake, create=True)
    ids = {source.cluster_id for source in sources}
    documents = [
        snapshot_import.read(read_text(path), source=str(path)) for path in options.snapshots
    ]
    own_documents = [document for document in documents if document.cluster_id in ids]
    new_snapshots = snapshot_import.keep(lake, own_documents)
    import_result = file_import.FileImportResult(
        arrived={cluster_id: ClusterArrivals() for cluster_id in ids}, counts=DropCounts()
    )
    if options.files:
        import_result = _from_files(lake, options, sources, clock, progress)
    clusters = tuple(
        _ingest_cluster(
            lake,
            options,
            source,
            sources if is_server_asked else (),
            import_result.arrived[source.cluster_id],
            clock=clock,
            progress=progress,
        )
        for source in sources
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
    options: IngestOptions,
    source: ClusterSource,
    server_sources: tuple[ClusterSource, ...],
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
            lake,
            source.cluster_id,
            source.cadence,
            rebuild=options.rebuild,
            replace=options.replace,
        )
        if server_sources:
            span = server_import.stretch(writer, *_typed(options, clock), rebuild=options.rebuild)
            window = span.from_ms, span.to_ms
            arrived = run(
                server_import.fetched(
                    writer,
                    source,
                    span,
                    _server_options(options, server_sources),
                    clock=clock,
                    progress=progress,
                )
            )
        days = writer.reports(arrived.days)
        failures += _nothing_usable(arrived)
        if options.previews is not None:
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
    counts = sum((Counter(report.counts) for report in reports), Counter(arrived.counts.by_name()))
    sentences = {reason.word: reason.value for reason in DropReason}
    reasons = [
        f"{number:,} {sentences.get(word, word)}"
        for word, number in counts.most_common()
        if word not in {DropReason.SERIES.word, DropReason.POINTS.word}
    ]
    return [f"nothing that was read can be used: {'; '.join(reasons[:MOST_REASONS])}"]


MOST_REASONS: Final = 4
"""Maximum number of reasons in an error about unusable points."""


def _typed(options: IngestOptions, clock: "Clock") -> tuple[int | None, int]:
    """Return begin (``None`` = where the last run ended) and end."""
    begin, end = options.window.span(clock)
    return (None if options.window.from_ms is None else begin), end


def _server_options(
    options: IngestOptions, server_sources: tuple[ClusterSource, ...]
) -> server_import.ServerImportOptions:
    dialects, name = _dialects(options.dialect or "")
    return server_import.ServerImportOptions(
        dialects=dialects,
        dialect=name,
        config=None if options.http_config is None else http_config.read(options.http_config),
        sources_of_address=server_sources,
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
    lake: "Lake",
    options: IngestOptions,
    sources: tuple[ClusterSource, ...],
    clock: "Clock",
    progress: "Progress",
) -> file_import.FileImportResult:
    dialects, name = _dialects(options.dialect or "")
    window = options.window.span(clock, 2**62) if options.window.is_given else file_import.ALWAYS
    files = file_import.FileImportRequest(
        paths=options.files,
        dialects=dialects,
        dialect=name,
        window=window,
        rebuild=options.rebuild,
        replace=options.replace,
    )
    return file_import.read(lake, sources, files, clock=clock, progress=progress)


def _published(lake: "Lake", source: ClusterSource) -> tuple[str, date, date]:
    """Copy the last days for previews."""
    to = table_store.opened(source.evidence_uri, create=True)
    return (to.redacted_address, *published_evidence.publish(lake, source.cluster_id, to))
