"""Manifests: which files make up a unit, in which generation, by whom, from what. Values, their JSON, a strict reader."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Final
from urllib.parse import quote

from reconciler.errors import LakeDamaged, LakeError
from reconciler.evidence.store.json_object import JsonObject
from reconciler.usage.tables import SCHEMA_VERSION, TABLES, Table

FORMAT: Final = "kquota-lake-manifest"
FORMAT_VERSION: Final = 1
UNITS: Final = "_units"
"""Folder of the manifests; engines that list folders skip names that begin with an underscore."""

_COVERED: Final = "covered_ppm "
"""Stands before the id of a broker among the counts of a manifest: the share of the day that it answered."""

_NAME: Final = re.compile(r"(\d{10})\.json")
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """What is committed at once: a table's rows of one cluster and day.

    Attributes:
        cluster_id: Kafka's cluster id, never "".
        day: UTC.
    """

    table: Table
    cluster_id: str
    day: date

    def __post_init__(self) -> None:
        if not self.cluster_id:
            raise LakeError(f"a unit of {self.table.name} needs a cluster id")

    @property
    def manifests(self) -> str:
        """The folder of its manifests."""
        return f"{cluster_manifests(self.table, self.cluster_id)}/{self.day.isoformat()}"

    @property
    def folder(self) -> str:
        """The folder of its files."""
        return f"{self.table.name}/{safe(self.cluster_id)}/{self.day.isoformat()}"

    def generation(self, number: int) -> str:
        """The path of one of its manifests."""
        return f"{self.manifests}/{number:010d}.json"

    def __str__(self) -> str:
        return f"{self.table.name} of {self.cluster_id} on {self.day}"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitFile:
    """One file.

    Attributes:
        path: From the root of the store.
        size: In bytes.
        sha256: Of its bytes, hexadecimal.
    """

    path: str
    size: int
    rows: int
    sha256: str

    def __post_init__(self) -> None:
        if self.size < 0 or self.rows < 0 or not re.fullmatch("[0-9a-f]{64}", self.sha256):
            raise LakeDamaged("size, rows or sha256 cannot be true", path=self.path)
        if not is_inside(self.path):
            raise LakeDamaged("a file must lie inside the store", path=self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One generation of a unit.

    Attributes:
        generation: 1, 2, …; the highest counts.
        files: Its files; none = the unit has no rows.
        counts: Named states of what went in, and the coverage of brokers; :attr:`states` and :attr:`coverage` are these apart.
        inputs: What it was made from, by name: generations, digests, moments.
    """

    unit: Unit
    generation: int
    schema_version: int
    run_id: str
    created_ms: int
    files: tuple[UnitFile, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    inputs: Mapping[str, str] = field(default_factory=dict[str, str])
    partial: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """Where it is kept."""
        return self.unit.generation(self.generation)

    @property
    def rows(self) -> int:
        """How many rows its files hold."""
        return sum(file.rows for file in self.files)

    @property
    def states(self) -> dict[str, int]:
        """The named states of what went in, for people."""
        return states_of(self.counts)

    @property
    def coverage(self) -> dict[str, int]:
        """For each broker the share of the day that it answered, in millionths."""
        return {
            name.removeprefix(_COVERED): share
            for name, share in self.counts.items()
            if name.startswith(_COVERED)
        }

    def json(self) -> bytes:
        """Its text."""
        return (
            json.dumps(
                {
                    "format": FORMAT,
                    "format_version": FORMAT_VERSION,
                    "table": self.unit.table.name,
                    "cluster_id": self.unit.cluster_id,
                    "day": self.unit.day.isoformat(),
                    "generation": self.generation,
                    "schema_version": self.schema_version,
                    "run_id": self.run_id,
                    "made_ms": self.created_ms,
                    "files": [
                        {
                            "path": file.path,
                            "size": file.size,
                            "rows": file.rows,
                            "sha256": file.sha256,
                        }
                        for file in self.files
                    ],
                    "counts": dict(sorted(self.counts.items())),
                    "inputs": dict(sorted(self.inputs.items())),
                    "partial": list(self.partial),
                },
                ensure_ascii=False,
                indent=1,
            )
            + "\n"
        ).encode()


def counts_of(states: Mapping[str, int], coverage: Mapping[str, int]) -> dict[str, int]:
    """What a manifest keeps of a day: its named states, and the coverage of brokers beside them."""
    return {**states, **{f"{_COVERED}{broker}": share for broker, share in coverage.items()}}


def states_of(counts: Mapping[str, int]) -> dict[str, int]:
    """The named states among the counts of a manifest, without coverage, which is no number of anything, and without zeros."""
    return {
        name: amount for name, amount in counts.items() if amount and not name.startswith(_COVERED)
    }


def states_of_all(manifests: Iterable[Manifest]) -> dict[str, int]:
    """The named states of several days of one table, added. Tables that were made together count the same things."""
    total: Counter[str] = Counter()
    for manifest in manifests:
        total.update(manifest.states)
    return dict(total)


def read(content: bytes, path: str, expected: Unit | None = None) -> Manifest:
    """The manifest that a file holds.

    Args:
        content: The file.
        path: Its name, for errors.
        expected: Of which unit it has to be; any by default.

    Raises:
        LakeDamaged: It is no manifest, damaged, of a version that this program does not read, or of another unit.
    """
    top = JsonObject.parsed(content, path)
    check_format(top, FORMAT, FORMAT_VERSION)
    name = top.text("table")
    table = TABLES.get(name)
    if table is None:
        raise LakeDamaged(f"the table {name!r} is not known", path=path, hint="upgrade kquota")
    manifest = Manifest(
        unit=Unit(table=table, cluster_id=top.text("cluster_id"), day=top.day("day")),
        generation=top.number("generation"),
        schema_version=schema_version(top),
        run_id=top.text("run_id"),
        created_ms=top.number("made_ms"),
        files=tuple(_file(row) for row in top.objects("files")),
        counts=top.numbers("counts"),
        inputs=top.texts_by_name("inputs"),
        partial=top.texts("partial"),
    )
    top.end()
    if expected is not None and manifest.unit != expected:
        raise LakeDamaged(f"speaks of {manifest.unit}, not of {expected}", path=path)
    return manifest


def _file(row: JsonObject) -> UnitFile:
    unit_file = UnitFile(
        path=row.text("path"),
        size=row.number("size"),
        rows=row.number("rows"),
        sha256=row.text("sha256"),
    )
    row.end()
    return unit_file


def check_format(top: JsonObject, name: str, version: int) -> None:
    """Whether a file says that it is what we want to read.

    Raises:
        LakeDamaged: It is something else, or of a newer version.
    """
    format_name = top.text("format")
    if format_name != name:
        raise LakeDamaged(f"is {format_name!r} and not {name!r}", path=top.path)
    actual_version = top.number("format_version")
    if actual_version > version:
        raise LakeDamaged(
            f"is of format version {actual_version}; this program reads up to {version}",
            path=top.path,
            hint="upgrade kquota",
        )


def schema_version(top: JsonObject) -> int:
    """The version of the tables that a file speaks of: ours, or the one before.

    Raises:
        LakeDamaged: It is newer or older.
    """
    version = top.number("schema_version")
    if version > SCHEMA_VERSION:
        raise LakeDamaged(
            f"was written with schema version {version}; this program reads {SCHEMA_VERSION - 1}"
            f" and {SCHEMA_VERSION}",
            path=top.path,
            hint="upgrade kquota here, or everywhere it writes to this place at once",
        )
    if version < SCHEMA_VERSION - 1:
        raise LakeDamaged(
            f"was written with schema version {version}; this program reads {SCHEMA_VERSION - 1}"
            f" and {SCHEMA_VERSION}",
            path=top.path,
            hint="make it again with kquota spark ingest",
        )
    return version


def number_of(path: str) -> int | None:
    """The generation that a manifest's path names; ``None`` = it is something else."""
    match = _NAME.fullmatch(path.rpartition("/")[2])
    return int(match[1]) if match else None


def newest(paths: Iterable[str]) -> dict[str, str]:
    """The path of the highest generation by folder; whatever is no manifest is left out."""
    newest_paths: dict[str, str] = {}
    for path in paths:
        if number_of(path) is not None:
            folder = path.rpartition("/")[0]
            newest_paths[folder] = max(path, newest_paths.get(folder, ""))
    return newest_paths


def day_in(folder: str) -> date | None:
    """The day of the folder of a unit's manifests; ``None`` = it is another folder."""
    match = _DAY.fullmatch(folder.rpartition("/")[2])
    try:
        return date.fromisoformat(match[0]) if match else None
    except ValueError:
        return None


def is_within(folder: str, from_day: date | None, to_day: date | None) -> bool:
    """Whether the folder of a unit's manifests is of a day between two, both included."""
    day = day_in(folder)
    return day is not None and (from_day or day) <= day <= (to_day or day)


def cluster_manifests(table: Table, cluster_id: str) -> str:
    """The folder of all manifests of a cluster."""
    return f"{table.name}/{UNITS}/{safe(cluster_id)}"


def safe(name: str) -> str:
    """A name as one part of a path that every store, Spark and every shell take alike; different names stay different.

    Percent-encoding with ``~`` in place of ``%``: a percent sign means itself to some readers and an escape to others.
    What Spark would skip (a leading ``_`` or ``.``) is encoded, too.
    """
    encoded = quote(name, safe="", errors="surrogatepass").replace("~", "%7E").replace("%", "~")
    return encoded if encoded[:1] not in {"_", "."} else f"~{ord(encoded[0]):02X}{encoded[1:]}"


def is_inside(path: str) -> bool:
    """Whether a path stays below the root: no ``..``, nothing empty, no beginning slash."""
    return all(part not in {"", ".", ".."} for part in path.split("/"))
