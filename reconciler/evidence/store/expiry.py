"""Removes expired units, superseded generations and unreferenced files from a lake."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from reconciler.errors import LakeError
from reconciler.evidence.store import manifest as manifests_
from reconciler.evidence.store.files.object_store import FileStore, StoredFile
from reconciler.evidence.store.files.thread_pool import each
from reconciler.usage.samples import DAY_MS, start_of
from reconciler.usage.tables import TABLES

MONTHS_13: Final = 396
MONTHS_25: Final = 762
DAYS_30: Final = 30

KEEP_DAYS: Final[dict[str, int]] = {
    **dict.fromkeys(TABLES, DAYS_30),
    "usage_5m": MONTHS_13,
    "usage_hist_d": MONTHS_25,
    "snapshot": MONTHS_25,
    "quota_entry": MONTHS_25,
}
"""Retention in days by table: raw data and results 30 days, five-minute tables 13 months, history 25 months."""

GRACE_MS: Final = DAY_MS
"""How long a superseded generation, or a file without a manifest, may still be in use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableExpiry:
    """What was removed from one table."""

    table: str = ""  # its name; "" = all tables
    units: int = 0  # number of expired units, each of one cluster and day
    generations: int = 0
    files: int = 0  # number of files that no manifest references
    size: int = 0  # Bytes

    def __add__(self, more: "TableExpiry") -> "TableExpiry":
        """Add the numbers; keep the name of the first."""
        return TableExpiry(
            table=self.table,
            units=self.units + more.units,
            generations=self.generations + more.generations,
            files=self.files + more.files,
            size=self.size + more.size,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryReport:
    """The result of :func:`expired`."""

    tables: tuple[TableExpiry, ...]  # tables from which something was removed, sorted
    dry_run: bool = False  # whether nothing was actually removed
    # Errors by table; nothing, or only a part, was removed from it.
    failures: Mapping[str, LakeError] = field(default_factory=dict[str, LakeError])

    @property
    def total(self) -> TableExpiry:
        """Return the sum over all tables."""
        return sum(self.tables, TableExpiry())


def expired(
    store: FileStore, now_ms: int, keep: Mapping[str, int] = KEEP_DAYS, *, dry_run: bool = False
) -> ExpiryReport:
    """Remove expired units, superseded generations and files that no manifest references.

    A generation is removed a day after its successor was committed, an unreferenced file when it is a day old. If the
    run is interrupted, the lake stays readable: old generations go before new ones, manifests before files.

    An error in one table does not stop the others (:attr:`ExpiryReport.failures`). If a manifest that is kept cannot be
    read, nothing is removed from its table, because the files that it references are unknown.

    Args:
        store: The store of the lake.
        keep: Retention in days by table; units of tables that are not listed do not expire.
        dry_run: Whether to count only.

    Raises:
        LakeError: A table is unknown, or its retention is less than one day.
    """
    for name, days in keep.items():
        if name not in TABLES or days < 1:
            raise LakeError(f"{name} cannot be kept for {days} days", hint="give a table and days")
    expiries: list[TableExpiry] = []
    failures: dict[str, LakeError] = {}
    for name in sorted(TABLES):
        expiry = TableExpiry(table=name)
        try:
            for step in _steps(store, name, now_ms, keep.get(name), dry_run=dry_run):
                expiry += step
        except LakeError as error:
            failures[name] = error
        if expiry.units or expiry.generations or expiry.files:
            expiries.append(expiry)
    return ExpiryReport(tables=tuple(expiries), dry_run=dry_run, failures=failures)


def _steps(
    store: FileStore, name: str, now_ms: int, keep_days: int | None, *, dry_run: bool
) -> Iterator[TableExpiry]:
    """Remove what is expired from one table; yield the result of each step when it is complete."""
    stored_files = store.stored(name)
    units: defaultdict[str, list[StoredFile]] = defaultdict(list)
    for file in stored_files:  # sorted by path, so generations ascend
        if unit_folder := _unit_of(file.path):
            units[unit_folder].append(file)
    old_units = [folder for folder in units if _is_past(folder, now_ms, keep_days)]
    superseded = [
        file
        for folder, generations in units.items()
        if folder not in old_units
        for file, successor in pairwise(generations)
        if successor.modified_ms <= now_ms - GRACE_MS
    ]
    # Remove the newest generation of a unit last; otherwise an interrupted run would bring back an older one.
    first = [*superseded, *(file for folder in old_units for file in units[folder][:-1])]
    last = [units[folder][-1] for folder in old_units]
    manifests = [file for generations in units.values() for file in generations]
    referenced_paths = _referenced_paths(store, _without(manifests, [*first, *last]))
    if not dry_run:
        store.delete(file.path for file in first)
    yield TableExpiry(generations=len(superseded), size=_size(first))
    if not dry_run:
        store.delete(file.path for file in last)
    yield TableExpiry(units=len(last), size=_size(last))
    if not dry_run:
        now_stored = store.stored(f"{name}/{manifests_.UNITS}")
        new_manifests = [file for file in _without(now_stored, manifests) if _unit_of(file.path)]
        referenced_paths |= _referenced_paths(store, new_manifests)
    files = [
        file
        for file in stored_files
        if not _unit_of(file.path)
        and file.path not in referenced_paths
        and file.modified_ms <= now_ms - GRACE_MS
    ]
    if not dry_run:
        store.delete(file.path for file in files)
    yield TableExpiry(files=len(files), size=_size(files))


def _size(files: Iterable[StoredFile]) -> int:
    return sum(file.size for file in files)


def _without(files: Iterable[StoredFile], excluded: Iterable[StoredFile]) -> list[StoredFile]:
    excluded_paths = {file.path for file in excluded}
    return [file for file in files if file.path not in excluded_paths]


def _unit_of(path: str) -> str:
    """Return the folder of a manifest; "" for any other path."""
    folder, _, _ = path.rpartition("/")
    parts = folder.split("/")
    is_manifest = (
        len(parts) == 4
        and parts[1] == manifests_.UNITS
        and manifests_.number_of(path) is not None
        and manifests_.day_in(folder) is not None
    )
    return folder if is_manifest else ""


def _is_past(folder: str, now_ms: int, keep_days: int | None) -> bool:
    """Whether the day of a unit ended at least ``keep_days`` days ago."""
    day = manifests_.day_in(folder)
    if day is None or keep_days is None:
        return False
    return start_of(day) + (1 + keep_days) * DAY_MS <= now_ms


def _referenced_paths(store: FileStore, manifests: Sequence[StoredFile]) -> set[str]:
    """Return the files that manifests reference; a manifest that was removed meanwhile references none."""

    def named(manifest_file: StoredFile) -> list[str]:
        content = store.find(manifest_file.path)
        if content is None:
            return []
        return [
            file.path
            for file in manifests_.read(content, store.display_path(manifest_file.path)).files
        ]

    return {path for paths in each(named, manifests) for path in paths}
