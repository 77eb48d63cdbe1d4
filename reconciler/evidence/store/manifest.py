"""Manifests: the files, generation, writer and inputs of a unit; values, JSON writer and strict reader."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Final
from urllib.parse import quote

from reconciler.codecs.row_values import read_row, row_document
from reconciler.errors import LakeDamaged, LakeError
from reconciler.evidence.store import json_files
from reconciler.render.json_values import Json
from reconciler.usage.tables import TABLES, Table

FORMAT: Final = "kquota-lake-manifest"
FORMAT_VERSION: Final = 1
UNITS: Final = "_units"
"""Folder of the manifests; engines that list folders skip names that start with an underscore."""

_COVERED: Final = "covered_ppm "
"""Prefix of a broker id in ``counts``: the share of the day in which the broker answered scrapes."""

_NAME: Final = re.compile(r"(\d{10})\.json")
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """The unit of a commit: the rows of one table, cluster and UTC day."""

    table: Table
    cluster_id: str  # Kafka's cluster id, never ""
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
        """Return the path of the manifest of a generation."""
        return f"{self.manifests}/{number:010d}.json"

    def __str__(self) -> str:
        return f"{self.table.name} of {self.cluster_id} on {self.day}"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitFile:
    """One file of a unit."""

    path: str  # from the root of the store
    size: int  # Bytes
    rows: int
    sha256: str  # Hexadecimal

    def __post_init__(self) -> None:
        if self.size < 0 or self.rows < 0 or not re.fullmatch("[0-9a-f]{64}", self.sha256):
            raise LakeDamaged("size, rows or sha256 cannot be true", path=self.path)
        if not is_inside(self.path):
            raise LakeDamaged("a file must lie inside the store", path=self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One generation of a unit."""

    table: str
    cluster_id: str
    day: date
    generation: int  # 1, 2, …; the highest is current
    schema_version: int
    run_id: str
    made_ms: int
    files: tuple[UnitFile, ...] = ()  # its files; empty = no rows
    # Named counts of the input and the coverage of brokers; see `states` and `coverage`.
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    # Provenance by name: generations, digests, times.
    inputs: Mapping[str, str] = field(default_factory=dict[str, str])
    partial: tuple[str, ...] = ()

    @property
    def unit(self) -> Unit:
        """The unit."""
        return Unit(table=TABLES[self.table], cluster_id=self.cluster_id, day=self.day)

    @property
    def path(self) -> str:
        """Its path in the store."""
        return self.unit.generation(self.generation)

    @property
    def rows(self) -> int:
        """The number of rows of its files."""
        return sum(file.rows for file in self.files)

    @property
    def states(self) -> dict[str, int]:
        """The named counts of the input, for display."""
        return states_of(self.counts)

    @property
    def coverage(self) -> dict[str, int]:
        """The share of the day in which each broker answered scrapes, in millionths."""
        return {
            name.removeprefix(_COVERED): share
            for name, share in self.counts.items()
            if name.startswith(_COVERED)
        }

    def document(self) -> dict[str, Json]:
        """Return the content of the file as JSON values."""
        return {"format": FORMAT, "format_version": FORMAT_VERSION, **row_document(self)}

    def json(self) -> bytes:
        """Return the content of the file."""
        return (json.dumps(self.document(), ensure_ascii=False, indent=1) + "\n").encode()


def counts_of(states: Mapping[str, int], coverage: Mapping[str, int]) -> dict[str, int]:
    """Merge named counts and the coverage of brokers into ``Manifest.counts``."""
    return {**states, **{f"{_COVERED}{broker}": share for broker, share in coverage.items()}}


def states_of(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the named counts of a manifest, without coverage (which is not a count) and zeros."""
    return {
        name: amount for name, amount in counts.items() if amount and not name.startswith(_COVERED)
    }


def states_of_all(manifests: Iterable[Manifest]) -> dict[str, int]:
    """Add the named counts of several days of one table; tables that were assembled together have the same counts."""
    total: Counter[str] = Counter()
    for manifest in manifests:
        total.update(manifest.states)
    return dict(total)


def read(content: bytes, path: str, expected: Unit | None = None) -> Manifest:
    """Parse a manifest.

    Args:
        content: The file.
        path: Its name, for errors.
        expected: The unit that it must be of; any by default.

    Raises:
        LakeDamaged: It is not a manifest, damaged, of an unsupported version, or of another unit.
    """
    top = json_files.opened(content, path, FORMAT, FORMAT_VERSION)
    with json_files.damage_located(path):
        name = top["table"].text()
        if name not in TABLES:
            raise LakeDamaged(f"the table {name!r} is not known", path=path, hint="upgrade kquota")
        _ = json_files.schema_version(top, path)
        manifest = read_row(top, Manifest)
        top.expect(manifest.document())
    if expected is not None and manifest.unit != expected:
        raise LakeDamaged(f"is of {manifest.unit}, not of {expected}", path=path)
    return manifest


def number_of(path: str) -> int | None:
    """Return the generation in the path of a manifest; ``None`` for any other path."""
    match = _NAME.fullmatch(path.rpartition("/")[2])
    return int(match[1]) if match else None


def newest(paths: Iterable[str]) -> dict[str, str]:
    """Return the path of the highest generation in each folder; other files are ignored."""
    newest_paths: dict[str, str] = {}
    for path in paths:
        if number_of(path) is not None:
            folder = path.rpartition("/")[0]
            newest_paths[folder] = max(path, newest_paths.get(folder, ""))
    return newest_paths


def day_in(folder: str) -> date | None:
    """Return the day of a folder of manifests; ``None`` for any other folder."""
    match = _DAY.fullmatch(folder.rpartition("/")[2])
    try:
        return date.fromisoformat(match[0]) if match else None
    except ValueError:
        return None


def is_within(folder: str, from_day: date | None, to_day: date | None) -> bool:
    """Whether a folder of manifests is of a day in the range, both ends inclusive."""
    day = day_in(folder)
    return day is not None and (from_day or day) <= day <= (to_day or day)


def cluster_manifests(table: Table, cluster_id: str) -> str:
    """Return the folder of all manifests of a cluster."""
    return f"{table.name}/{UNITS}/{safe(cluster_id)}"


def safe(name: str) -> str:
    """Encode a name as one path segment that stores, Spark and shells accept; different names stay different.

    Percent-encoding with ``~`` instead of ``%``, because some readers treat a percent sign as an escape and some do
    not. A leading ``_`` or ``.``, which Spark would skip, is also encoded.
    """
    encoded = quote(name, safe="", errors="surrogatepass").replace("~", "%7E").replace("%", "~")
    return encoded if encoded[:1] not in {"_", "."} else f"~{ord(encoded[0]):02X}{encoded[1:]}"


def is_inside(path: str) -> bool:
    """Whether a path stays below the root: no ``..``, ``.`` or empty segment, no leading slash."""
    return all(part not in {"", ".", ".."} for part in path.split("/"))
