"""The result of a run of ``kquota usage ingest``: values, text for people, JSON for programs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Final

from reconciler.base.escaping import escaped
from reconciler.evidence.ingest.drop_reasons import DropCounts, DropReason
from reconciler.evidence.ingest.sample_days import ClusterArrivals, DayReport
from reconciler.render.json_values import Json, dump
from reconciler.render.table import PLAIN, Style, fold_lines
from reconciler.render.units import count, instant

KIND: Final = "kquota-ingest"
FORMAT: Final = 1
MOST_DAYS: Final = 31
"""Maximum number of days in the text, the last ones; JSON has all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterIngestSummary:
    """The result for one cluster."""

    display_name: str
    cluster_id: str
    window: tuple[int, int] | None  # the queried window; None = no Prometheus was queried
    arrived: ClusterArrivals
    days: tuple[DayReport, ...]
    # Address, first and last day of the copy for previews; None = not copied.
    published: tuple[str, date, date] | None
    failures: tuple[str, ...]  # errors of this cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestSummary:
    """The result of a run."""

    lake: str  # address of the lake, without secrets
    clusters: tuple[ClusterIngestSummary, ...]
    snapshots: int
    ignored: int  # number of snapshots of other clusters, which were ignored
    counts: DropCounts  # drop reasons of series in files, including series of no cluster
    failures: tuple[str, ...]

    @property
    def failed(self) -> bool:
        """Whether any part of the run failed."""
        return bool(self.failures) or any(cluster.failures for cluster in self.clusters)


def json(summary: IngestSummary) -> str:
    """Render the summary as a versioned JSON document."""
    return dump(
        {
            "kind": KIND,
            "format": FORMAT,
            "lake": summary.lake,
            "clusters": [_cluster_json(cluster) for cluster in summary.clusters],
            "newLooks": summary.snapshots,
            "ofOtherClusters": summary.ignored,
            "counts": summary.counts.by_name(),
            "examples": {
                name: list(samples) for name, samples in _examples(summary.counts).items()
            },
            "failures": list(summary.failures),
        }
    )


def _cluster_json(cluster: ClusterIngestSummary) -> Json:
    return {
        "cluster": cluster.display_name,
        "clusterId": cluster.cluster_id,
        "from": None if cluster.window is None else instant(cluster.window[0] / 1000),
        "to": None if cluster.window is None else instant(cluster.window[1] / 1000),
        "newPoints": sum(cluster.arrived.new.values()),
        "counts": cluster.arrived.counts.by_name(),
        "examples": {
            name: list(samples) for name, samples in _examples(cluster.arrived.counts).items()
        },
        "remarks": list(cluster.arrived.remarks),
        "days": [_day_json(report) for report in cluster.days],
        "published": None
        if cluster.published is None
        else {
            "uri": cluster.published[0],
            "from": cluster.published[1].isoformat(),
            "to": cluster.published[2].isoformat(),
        },
        "failures": list(cluster.failures),
    }


def _day_json(day: DayReport) -> Json:
    return {
        "day": day.day.isoformat(),
        "newPoints": day.new_points,
        "samples": day.samples,
        "assembled": day.is_assembled,
        "coveragePpm": dict(day.coverage),
        "counts": dict(day.counts),
        "partial": list(day.partial),
    }


def text(summary: IngestSummary, *, style: Style = PLAIN) -> str:
    """Render the summary for people: per cluster new points, days, and unused series with reasons."""
    lines = [f"lake {escaped(summary.lake)}"]
    if summary.snapshots or summary.ignored:
        lines.append(
            f"limits: {count(summary.snapshots, 'new snapshot')}"
            + (f"; {summary.ignored:,} of other clusters ignored" if summary.ignored else "")
        )
    if summary.counts:
        lines += ["files:", *_count_lines(summary.counts.by_name(), _examples(summary.counts))]
    for cluster in summary.clusters:
        lines += _cluster_lines(cluster)
    return "\n".join(fold_lines(lines, style)) + "\n"


def _cluster_lines(cluster: ClusterIngestSummary) -> Iterable[str]:
    name = escaped(cluster.display_name)
    yield f"cluster {name}" + (
        "" if name == cluster.cluster_id else f" ({escaped(cluster.cluster_id)})"
    )
    if cluster.window is not None:
        begin, end = cluster.window
        yield f"  queried {instant(begin / 1000)} to {instant(end / 1000)}"
    yield f"  {count(sum(cluster.arrived.new.values()), 'new point')}"
    yield from (f"  {escaped(remark)}" for remark in cluster.arrived.remarks)
    yield from _count_lines(cluster.arrived.counts.by_name(), _examples(cluster.arrived.counts))
    if len(cluster.days) > MOST_DAYS:
        yield f"  {len(cluster.days) - MOST_DAYS:,} days before are not shown"
    for day in cluster.days[-MOST_DAYS:]:
        yield from _day_lines(day)
    if cluster.published is not None:
        place, first, last = cluster.published
        yield f"  previews: {first} to {last}, at {escaped(place)}"


def _day_lines(day: DayReport) -> Iterable[str]:
    covered = ", ".join(
        f"broker {broker} {share / 10_000:.1f} %" for broker, share in day.coverage.items()
    )
    action = "assembled" if day.is_assembled else "unchanged"
    yield f"  {day.day} {count(day.samples, 'sample')}, {action}; covered: {covered or 'nothing'}"
    yield from (f"    PARTIAL: {escaped(problem)}" for problem in day.partial)
    if day.is_assembled:
        yield from (f"  {line}" for line in _count_lines(day.counts))


def _examples(counts: DropCounts) -> dict[str, tuple[str, ...]]:
    return {word.word: samples for word in counts if (samples := counts.examples(word))}


def _count_lines(
    counts: Mapping[str, int], examples: Mapping[str, tuple[str, ...]] | None = None
) -> Iterable[str]:
    for name, number in counts.items():
        reason = DropReason.__members__.get(name.upper())  # an earlier version had other ones
        yield f"    {number:,} {name}{f': {reason.value}' if reason else ''}"
        yield from (f"      {escaped(sample)}" for sample in (examples or {}).get(name, ()))
