"""Recorded use from files: saved answers of Prometheus, OpenMetrics text, Parquet and CSV exports; several clusters may be in one."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from reconciler.errors import TelemetryError
from reconciler.lake.lake import Lake
from reconciler.ports import Clock, Progress
from reconciler.telemetry import columns, openmetrics, range_json
from reconciler.telemetry.arriving import ALWAYS, Arrived, Gathering
from reconciler.telemetry.dialects import Dialect, Dialects
from reconciler.telemetry.fates import Tally
from reconciler.telemetry.keeping import Reading
from reconciler.telemetry.points import Collector
from reconciler.telemetry.series import Counts, Series, Word
from reconciler.telemetry.settings import CLUSTER_LABELS, Clusters, Source


class Form(StrEnum):
    """How a file is written."""

    AUTO = "auto"
    PROMETHEUS_JSON = "prometheus-json"
    OPENMETRICS = "openmetrics"
    PARQUET = "parquet"
    CSV = "csv"


_READERS: Final[dict[Form, Callable[[Path, Counts], Iterator[Series]]]] = {
    Form.PROMETHEUS_JSON: range_json.read,
    Form.OPENMETRICS: openmetrics.read,
    Form.PARQUET: columns.read,
    Form.CSV: columns.read,
}
_ENDINGS: Final = {
    ".json": Form.PROMETHEUS_JSON,
    ".jsonl": Form.PROMETHEUS_JSON,
    ".parquet": Form.PARQUET,
    ".csv": Form.CSV,
    ".om": Form.OPENMETRICS,
    ".openmetrics": Form.OPENMETRICS,
    ".prom": Form.OPENMETRICS,
    ".txt": Form.OPENMETRICS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """What is to be read.

    Attributes:
        paths: The files.
        form: How they are written.
        dialects: Those that may be spoken.
        dialect: The name of the one that is; "" = found out.
        window: Points outside of it are left alone.
    """

    paths: tuple[Path, ...]
    form: Form = Form.AUTO
    dialects: Dialects
    dialect: str = ""
    window: tuple[int, int] = ALWAYS


def form_of(path: Path) -> Form:
    """How a file is written, by its ending.

    Raises:
        TelemetryError: The ending says nothing.
    """
    name = path.name.removesuffix(".gz")
    found = _ENDINGS.get(Path(name).suffix.lower())
    if found is None:
        raise TelemetryError(
            f"its ending does not say how it is written ({', '.join(_ENDINGS)})",
            where=str(path),
            hint="say so with --input-format",
        )
    return found


def read(
    lake: Lake,
    sources: Sequence[Source],
    files: Files,
    *,
    clock: Clock,
    progress: Progress | None = None,
) -> tuple[Mapping[str, Arrived], Counts]:
    """Reads files into the lake.

    A file that cannot be read is a failure in the result, and the others are read all the same.

    Args:
        lake: Where to.
        sources: Whose series may be in them.
        files: What to read.
        clock: Points from later than now come from a clock that is wrong.
        progress: Called once per file.

    Returns:
        What arrived by cluster id; and what became of all series, which may be nobody's.

    Raises:
        TelemetryError: They speak no dialect that we know, or have several clusters that nothing tells apart.
        LakeError: The lake cannot be read or written.
    """
    arrived = {one.cluster_id: Arrived() for one in sources}
    clusters, failures = Clusters(sources), dict[Path, str]()
    dialect = _dialect(files, clusters, failures)
    collector = Collector(clusters, dialect, read_ms=round(clock.now() * 1000))
    gathering = Gathering(lake, collector, arrived, files.window)
    counts, tally = Counts(), Tally()
    whole: set[str] = set()
    cut: set[str] = set()
    for number, path in enumerate(files.paths):
        if progress is not None:
            progress("reading files", number, len(files.paths))
        if path in failures:
            continue
        truncated = counts[Word.TRUNCATED]
        try:
            for series in _series(path, files.form, counts):
                gathering.add(series, tally)
                if gathering.is_full:
                    gathering.keep(Reading())
        except TelemetryError as error:
            failures[path] = error.message
            cut.add(path.name)
        else:
            (cut if counts[Word.TRUNCATED] > truncated else whole).add(path.name)
    gathering.keep(Reading(read_files=frozenset(whole - cut), cut_files=frozenset(cut)))
    counts.merge(collector.counts)
    for one in arrived.values():
        one.failures.extend(failures.values())
        one.tally.update(tally)
        if not one.new:
            one.remarks.append("nothing in the files is of this cluster and window")
    return arrived, counts


def _series(path: Path, form: Form, counts: Counts) -> Iterator[Series]:
    return _READERS[form_of(path) if form is Form.AUTO else form](path, counts)


def _dialect(files: Files, clusters: Clusters, failures: dict[Path, str]) -> Dialect:
    """Which dialect is spoken, from a first look at the names; and whether several clusters are mixed."""
    labels: dict[str, set[str]] = {}
    told: set[tuple[tuple[str, str], ...]] = set()
    for path in files.paths:
        try:
            for series in _series(path, files.form, Counts()):
                if files.dialects.interesting(series.name):
                    labels.setdefault(series.name, set()).update(series.labels)
                    # Not `up`: other jobs are scraped, too.
                    if any(one.speaks(series.name, series.labels) for one in files.dialects.all):
                        told.add(tuple((name, series.label(name)) for name in CLUSTER_LABELS))
                else:
                    labels.setdefault(series.name, set())
        except TelemetryError as error:
            failures[path] = error.message
    if not labels and failures:
        raise TelemetryError("; ".join(failures.values()))
    dialect = (
        files.dialects.named(files.dialect)
        if files.dialect
        else files.dialects.detected({name: frozenset(found) for name, found in labels.items()})
    )
    clusters.check(dict(one) for one in told)
    return dialect
