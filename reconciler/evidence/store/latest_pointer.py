"""``LATEST.json``: the files, window and quality of a cluster's published evidence; values, writer and strict reader."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Final

from reconciler.errors import LakeDamaged, QuotaValueError
from reconciler.evidence.store import manifest as manifests_
from reconciler.evidence.store.json_object import JsonObject
from reconciler.evidence.store.manifest import UnitFile
from reconciler.usage.samples import Cadence, QuotaType
from reconciler.usage.tables import (
    QUOTA_ENTRY,
    SCHEMA_VERSION,
    TARGET_UP,
    USAGE_SAMPLE,
    Column,
    ColumnKind,
    Table,
)

FORMAT: Final = "kquota-evidence"
FORMAT_VERSION: Final = 1
NAME: Final = "LATEST.json"

LATEST_MOMENT_MS: Final = 253_402_300_799_000
"""The end of the year 9999, the last year of Python's ``datetime``."""

MOST_ROWS_READ: Final = 5_000_000
"""Maximum number of rows of all tables except samples; they are read completely and need 200 bytes each."""

_BUCKET: Final = ("quota_type", "group_kind", "user", "client_id", "ip")

BUCKET_SEEN: Final = Table(
    name="bucket_seen",
    columns=(
        Column(name="cluster_id", kind=ColumnKind.TEXT),
        *(Column(name=name, kind=ColumnKind.TEXT) for name in _BUCKET),
        Column(name="broker_id", kind=ColumnKind.TEXT),
        Column(name="samples", kind=ColumnKind.LONG),
        Column(name="day", kind=ColumnKind.DAY),
    ),
    key=("cluster_id", *_BUCKET, "broker_id"),
)
"""Number of samples per bucket, broker and day: a preview lists the recorded buckets without reading samples."""

BEYOND: Final = "ways_beyond"
"""Prefix of a key in ``counts``: its clients were counted in more ways than the published limits show."""

TABLES: Final = {table.name: table for table in (USAGE_SAMPLE, TARGET_UP, QUOTA_ENTRY, BUCKET_SEEN)}
"""The tables of evidence, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceFile:
    """One file of the evidence.

    Attributes:
        file: Path from the root of the store, size, rows and SHA-256.
        source: Digest of the inputs; if it is equal, the file need not be created again.
        end_sha256: SHA-256 of the Parquet footer, for readers that do not fetch the whole file.
    """

    file: UnitFile
    table: Table
    day: date
    source: str
    end_sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RetiredFile:
    """A file that ``LATEST.json`` listed until ``since_ms``; a reader may still use it."""

    path: str
    since_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestPointer:
    """The last publication of a cluster.

    Attributes:
        to_ms: End of the window, exclusive.
        coverage_ppm: Lowest share of the window, over brokers, in which the broker answered scrapes; in millionths.
        snapshot_id: The quota snapshot in effect at the end of the window; "" if there is none.
        measured: Quota types with any recorded bucket.
        retired: Files of earlier publications that are not removed yet.
    """

    cluster_id: str
    schema_version: int = SCHEMA_VERSION
    from_ms: int
    to_ms: int
    created_ms: int
    pace: Cadence
    coverage_ppm: int
    snapshot_id: str = ""
    observed_at_ms: int = 0
    measured: tuple[QuotaType, ...] = ()
    partial: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    parts: tuple[EvidenceFile, ...] = ()
    retired: tuple[RetiredFile, ...] = ()

    def of(self, table: Table) -> tuple[EvidenceFile, ...]:
        """Return the files of one table, sorted by day."""
        return tuple(evidence_file for evidence_file in self.parts if evidence_file.table is table)

    def json(self) -> bytes:
        """Return the content of the file."""
        content = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "schema_version": self.schema_version,
            "cluster_id": self.cluster_id,
            "from_ms": self.from_ms,
            "to_ms": self.to_ms,
            "made_ms": self.created_ms,
            "step_ms": self.pace.step_ms,
            "max_gap_ms": self.pace.max_gap_ms,
            "coverage_ppm": self.coverage_ppm,
            "snapshot_id": self.snapshot_id,
            "observed_at_ms": self.observed_at_ms,
            "measured": [str(quota_type) for quota_type in self.measured],
            "partial": list(self.partial),
            "counts": dict(sorted(self.counts.items())),
            "files": [
                {
                    "path": evidence_file.file.path,
                    "table": evidence_file.table.name,
                    "day": evidence_file.day.isoformat(),
                    "size": evidence_file.file.size,
                    "rows": evidence_file.file.rows,
                    "sha256": evidence_file.file.sha256,
                    "source": evidence_file.source,
                    "end_sha256": evidence_file.end_sha256,
                }
                for evidence_file in self.parts
            ],
            "retired": [
                {"path": retired_file.path, "since_ms": retired_file.since_ms}
                for retired_file in self.retired
            ],
        }
        return (json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode()


def folder(cluster_id: str) -> str:
    """Return the folder of a cluster's evidence."""
    return manifests_.safe(cluster_id)


def read(content: bytes, path: str, cluster_id: str) -> LatestPointer:
    """Parse ``LATEST.json``.

    Raises:
        LakeDamaged: It is damaged, of an unsupported version or another cluster, or lists too many rows.
    """
    top = JsonObject.parsed(content, path)
    manifests_.check_format(top, FORMAT, FORMAT_VERSION)
    latest = LatestPointer(
        schema_version=manifests_.schema_version(top),
        cluster_id=top.text("cluster_id"),
        from_ms=top.number("from_ms"),
        to_ms=top.number("to_ms"),
        created_ms=top.number("made_ms"),
        pace=_pace(top),
        coverage_ppm=top.number("coverage_ppm"),
        snapshot_id=top.text("snapshot_id"),
        observed_at_ms=top.number("observed_at_ms"),
        measured=tuple(_type(name, path) for name in top.texts("measured")),
        partial=top.texts("partial"),
        counts=top.numbers("counts"),
        parts=tuple(_part(row) for row in top.objects("files")),
        retired=tuple(_retired(row) for row in top.objects("retired")),
    )
    top.end()
    if latest.cluster_id != cluster_id:
        raise LakeDamaged(f"is of the cluster {latest.cluster_id}, not of {cluster_id}", path=path)
    if not latest.from_ms <= latest.to_ms <= LATEST_MOMENT_MS:
        raise LakeDamaged(
            "the window is invalid: it ends before it starts or after the year 9999", path=path
        )
    rows = sum(
        evidence_file.file.rows
        for evidence_file in latest.parts
        if evidence_file.table is not USAGE_SAMPLE
    )
    if rows > MOST_ROWS_READ:
        raise LakeDamaged(
            f"names {rows:,} rows besides samples; {MOST_ROWS_READ:,} are read",
            path=path,
            hint="publish a shorter window",
        )
    return latest


def _pace(top: JsonObject) -> Cadence:
    try:
        return Cadence(step_ms=top.number("step_ms"), max_gap_ms=top.number("max_gap_ms"))
    except QuotaValueError as error:
        raise LakeDamaged(str(error), path=top.path) from error


def _type(text: str, path: str) -> QuotaType:
    try:
        return QuotaType(text)
    except ValueError as error:
        raise LakeDamaged(f"{text!r} is not a quota type", path=path) from error


def _part(row: JsonObject) -> EvidenceFile:
    table = TABLES.get(name := row.text("table"))
    if table is None:
        raise LakeDamaged(f"the table {name!r} is not known", path=row.path, hint="upgrade kquota")
    evidence_file = EvidenceFile(
        file=UnitFile(
            path=row.text("path"),
            size=row.number("size"),
            rows=row.number("rows"),
            sha256=row.text("sha256"),
        ),
        table=table,
        day=row.day("day"),
        source=row.text("source"),
        end_sha256=row.text("end_sha256"),
    )
    row.end()
    return evidence_file


def _retired(row: JsonObject) -> RetiredFile:
    retired_file = RetiredFile(path=row.text("path"), since_ms=row.number("since_ms"))
    row.end()
    return retired_file
