"""What is removed from a lake, and when: units past their time, superseded generations, files that no manifest names."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from itertools import pairwise
from typing import Final

from reconciler.errors import LakeError
from reconciler.evidence.store import manifest as manifests_
from reconciler.evidence.store.files.object_store import FileStore, StoredFile
from reconciler.evidence.store.files.thread_pool import each
from reconciler.usage.samples import DAY_MS
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

KEPT_GENERATIONS: Final = 2
GRACE_MS: Final = DAY_MS
"""So long a superseded generation, and a file that no manifest names, may still be in use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableExpiry:
    """What was removed of one table.

    Attributes:
        table: Its name.
        units: Days of clusters that were past their time.
        generations: Superseded manifests of others.
        files: Files that no manifest names any more, or ever named.
        size: Bytes of all of it.
    """

    table: str
    units: int = 0
    generations: int = 0
    files: int = 0
    size: int = 0


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
        return TableExpiry(
            table="",
            units=sum(expiry.units for expiry in self.tables),
            generations=sum(expiry.generations for expiry in self.tables),
            files=sum(expiry.files for expiry in self.tables),
            size=sum(expiry.size for expiry in self.tables),
        )


@dataclass(slots=True, kw_only=True)
class _ManifestPartition:
    """The manifests of one table: what goes first, what goes last, what stays."""

    first: list[StoredFile] = field(default_factory=list[StoredFile])
    last: list[StoredFile] = field(default_factory=list[StoredFile])
    retained: list[StoredFile] = field(default_factory=list[StoredFile])
    units: int = 0
    generations: int = 0


def expired(
    store: FileStore, now_ms: int, keep: Mapping[str, int] = KEEP_DAYS, *, dry_run: bool = False
) -> ExpiryReport:
    """Removes units past their time, superseded generations but the newest two, and files that no manifest names.

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
        table = _TableExpirer(store, name, now_ms, keep.get(name))
        try:
            table.expire(dry_run=dry_run)
        except LakeError as error:
            failures[name] = error
        expiries.append(table.done)
    return ExpiryReport(
        tables=tuple(
            expiry for expiry in expiries if expiry.units or expiry.generations or expiry.files
        ),
        dry_run=dry_run,
        failures=failures,
    )


class _TableExpirer:
    """One table: what is removed of it, and what was when it went wrong."""

    def __init__(self, store: FileStore, name: str, now_ms: int, keep_days: int | None) -> None:
        self.done = TableExpiry(table=name)
        self._store, self._now_ms, self._keep_days = store, now_ms, keep_days

    def expire(self, *, dry_run: bool) -> None:
        """Removes it step by step; each step that is over is in :attr:`done`."""
        store, name = self._store, self.done.table
        stored_files = store.stored(name)
        manifests = [file for file in stored_files if _unit_of(file.path)]
        partition = _sort(manifests, self._now_ms, self._keep_days)
        referenced_paths = _referenced_paths(store, partition.retained)
        if not dry_run:
            store.delete(file.path for file in partition.first)
        self._count(partition.first, generations=partition.generations)
        if not dry_run:
            store.delete(file.path for file in partition.last)
        self._count(partition.last, units=partition.units)
        if not dry_run:
            known_paths = {file.path for file in manifests}
            now_there = store.stored(f"{name}/{manifests_.UNITS}")
            new_manifests = [
                file for file in now_there if _unit_of(file.path) and file.path not in known_paths
            ]
            referenced_paths |= _referenced_paths(store, new_manifests)
        files = [
            file
            for file in stored_files
            if not _unit_of(file.path)
            and file.path not in referenced_paths
            and file.modified_ms <= self._now_ms - GRACE_MS
        ]
        if not dry_run:
            store.delete(file.path for file in files)
        self._count(files, files=len(files))

    def _count(
        self, removed: Iterable[StoredFile], *, units: int = 0, generations: int = 0, files: int = 0
    ) -> None:
        before = self.done
        self.done = TableExpiry(
            table=before.table,
            units=before.units + units,
            generations=before.generations + generations,
            files=before.files + files,
            size=before.size + sum(file.size for file in removed),
        )


def _unit_of(path: str) -> str:
    """The folder of a manifest; "" = it is something else."""
    parts = path.split("/")
    is_one = (
        len(parts) == 5
        and parts[1] == manifests_.UNITS
        and manifests_.number_of(path) is not None
        and _day(parts[3]) is not None
    )
    return "/".join(parts[:4]) if is_one else ""


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _sort(
    manifests: Iterable[StoredFile], now_ms: int, keep_days: int | None
) -> _ManifestPartition:
    units: defaultdict[str, list[StoredFile]] = defaultdict(list)
    for file in manifests:  # sorted by path, so generations ascend
        units[_unit_of(file.path)].append(file)
    partition = _ManifestPartition()
    for folder, generations in units.items():
        day = _day(folder.rpartition("/")[2])
        if (
            day is not None
            and keep_days is not None
            and _end_ms(day) + keep_days * DAY_MS <= now_ms
        ):
            # The newest goes last: else an old state would be back if we died in between.
            partition.units += 1
            partition.first += generations[:-1]
            partition.last.append(generations[-1])
            continue
        for file, next_one in pairwise(generations):
            is_old = next_one.modified_ms <= now_ms - GRACE_MS
            if is_old and file not in generations[-KEPT_GENERATIONS:]:
                partition.generations += 1
                partition.first.append(file)
            else:
                partition.retained.append(file)
        partition.retained.append(generations[-1])
    return partition


def _end_ms(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1000 + DAY_MS


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
