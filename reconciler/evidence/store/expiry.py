"""What is removed from a lake, and when: units past their time, superseded generations, files that no manifest names."""

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
    "apply_log": MONTHS_25,
    "quota_change": MONTHS_25,
}
"""For how many days each table is kept: what is raw, and results, a month; five minutes 13 months; history 25 months."""

GRACE_MS: Final = DAY_MS
"""So long a superseded generation, and a file that no manifest names, may still be in use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableExpiry:
    """What was removed of one table.

    Attributes:
        table: Its name; "" = of all tables.
        units: Days of clusters that were past their time.
        files: Files that no manifest names any more, or ever named.
    """

    table: str = ""
    units: int = 0
    generations: int = 0
    files: int = 0
    size: int = 0

    def __add__(self, more: "TableExpiry") -> "TableExpiry":
        """Both, under the name of the first."""
        return TableExpiry(
            table=self.table,
            units=self.units + more.units,
            generations=self.generations + more.generations,
            files=self.files + more.files,
            size=self.size + more.size,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryReport:
    """What was removed.

    Attributes:
        tables: Those of which something was removed, sorted.
        dry_run: Whether it only would have been.
        failures: By table: why it was left alone, or only begun.
    """

    tables: tuple[TableExpiry, ...]
    dry_run: bool = False
    failures: Mapping[str, LakeError] = field(default_factory=dict[str, LakeError])

    @property
    def total(self) -> TableExpiry:
        """All of it."""
        return sum(self.tables, TableExpiry())


def expired(
    store: FileStore, now_ms: int, keep: Mapping[str, int] = KEEP_DAYS, *, dry_run: bool = False
) -> ExpiryReport:
    """Removes units past their time, superseded generations, and files that no manifest names.

    Generations and files stay for a day after they fell out of use. A run that is killed in between leaves a readable
    lake: old generations go before new ones, manifests before files.

    What is wrong with one table does not keep the others: it is reported in :attr:`ExpiryReport.failures`. Where a manifest that
    stays cannot be read, nothing of its table is removed, since it is not known what it names.

    Args:
        store: Where.
        now_ms: Now.
        keep: Days by table; a table that is not named keeps its units.
        dry_run: Whether to count only.

    Raises:
        LakeError: A table is not known, or a number of days is less than one.
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
    """Removes what is past its time of one table: step by step, each given once it is over."""
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
    # The newest generation of a unit goes last: else an old state would be back if the run is killed in between.
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
    """The folder of a manifest; "" = it is something else."""
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
    """Whether the day of a unit ended more than so many days ago."""
    day = manifests_.day_in(folder)
    if day is None or keep_days is None:
        return False
    return start_of(day) + (1 + keep_days) * DAY_MS <= now_ms


def _referenced_paths(store: FileStore, manifests: Sequence[StoredFile]) -> set[str]:
    """The files that manifests name; of one that is gone by now, none."""

    def named(manifest_file: StoredFile) -> list[str]:
        content = store.find(manifest_file.path)
        if content is None:
            return []
        return [
            file.path
            for file in manifests_.read(content, store.display_path(manifest_file.path)).files
        ]

    return {path for paths in each(named, manifests) for path in paths}
