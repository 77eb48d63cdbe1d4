"""``LATEST.json``: the files, window and quality of a cluster's published evidence; values, writer and strict reader."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Final

from reconciler.codecs.row_values import read_row, row_document
from reconciler.errors import LakeDamaged
from reconciler.evidence.store import json_files
from reconciler.evidence.store.manifest import UnitFile, safe
from reconciler.render.json_values import Json
from reconciler.usage.samples import LATEST_MOMENT_MS, Cadence, QuotaType
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
"""The tables of evidence, by name. ``target_up`` is in earlier publications only, and not read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceFile(UnitFile):
    """One file of the evidence."""

    table: str  # a name in `TABLES`
    day: date
    source: str  # digest of the inputs; if it is equal, the file need not be created again
    end_sha256: str  # SHA-256 of the Parquet footer, for readers that do not fetch the whole file


@dataclass(frozen=True, slots=True, kw_only=True)
class RetiredFile:
    """A file that ``LATEST.json`` listed until ``since_ms``; a reader may still use it."""

    path: str
    since_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestPointer:
    """The last publication of a cluster."""

    cluster_id: str
    schema_version: int = SCHEMA_VERSION
    from_ms: int
    to_ms: int  # end of the window, exclusive
    made_ms: int
    step_ms: int
    max_gap_ms: int
    # Lowest share of the window, over brokers, in which the broker answered scrapes; in millionths.
    coverage_ppm: int
    # The quota snapshot in effect at the end of the window; "" if there is none.
    snapshot_id: str = ""
    observed_at_ms: int = 0
    measured: tuple[QuotaType, ...] = ()  # quota types with any recorded bucket
    partial: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    files: tuple[EvidenceFile, ...] = ()
    retired: tuple[RetiredFile, ...] = ()  # files of earlier publications that are not removed yet

    @property
    def cadence(self) -> Cadence:
        """The cadence of the samples."""
        return Cadence(step_ms=self.step_ms, max_gap_ms=self.max_gap_ms)

    def of(self, table: Table) -> tuple[EvidenceFile, ...]:
        """Return the files of one table, sorted by day."""
        return tuple(file for file in self.files if file.table == table.name)

    def document(self) -> dict[str, Json]:
        """Return the content of the file as JSON values."""
        return {"format": FORMAT, "format_version": FORMAT_VERSION, **row_document(self)}

    def json(self) -> bytes:
        """Return the content of the file."""
        return (json.dumps(self.document(), ensure_ascii=False, indent=1) + "\n").encode()


def folder(cluster_id: str) -> str:
    """Return the folder of a cluster's evidence."""
    return safe(cluster_id)


def read(content: bytes, path: str, cluster_id: str) -> LatestPointer:
    """Parse ``LATEST.json``.

    Raises:
        LakeDamaged: It is damaged, of an unsupported version or another cluster, or lists too many rows.
    """
    top = json_files.opened(content, path, FORMAT, FORMAT_VERSION)
    with json_files.damage_located(path):
        _ = json_files.schema_version(top, path)
        latest = read_row(top, LatestPointer)
        _ = latest.cadence
        for number, file in enumerate(latest.files):
            if file.table not in TABLES:
                raise LakeDamaged(
                    f"files[{number}].table should be one of {', '.join(TABLES)}", path=path
                )
        top.expect(latest.document())
    if latest.cluster_id != cluster_id:
        raise LakeDamaged(f"is of the cluster {latest.cluster_id}, not of {cluster_id}", path=path)
    if not latest.from_ms <= latest.to_ms <= LATEST_MOMENT_MS:
        raise LakeDamaged(
            "the window is invalid: it ends before it starts or after the year 9999", path=path
        )
    rows = sum(file.rows for file in latest.files if file.table != USAGE_SAMPLE.name)
    if rows > MOST_ROWS_READ:
        raise LakeDamaged(
            f"names {rows:,} rows besides samples; {MOST_ROWS_READ:,} are read",
            path=path,
            hint="publish a shorter window",
        )
    return latest
