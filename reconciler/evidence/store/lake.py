"""The lake: plain tables, one Parquet object for each table, cluster and day: ``TABLE/cluster_id=…/day=…/part.parquet``.

What a day was made from is in the footer of its object, so that rows and facts are replaced together. An object is put
whole, over the version that was read: of two writers of one day one wins and the other repeats its work.
"""

import hashlib
import re
import secrets
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Final, Protocol, cast

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from reconciler.errors import LakeConflict, LakeDamaged, LakeError
from reconciler.evidence.store import series_index
from reconciler.evidence.store.files import arrow_tables, parquet_files
from reconciler.evidence.store.files.parquet_files import TableFile
from reconciler.evidence.store.files.table_reader import TableReader
from reconciler.evidence.store.files.thread_pool import each
from reconciler.usage.tables import SCHEMA_VERSION, Table

if TYPE_CHECKING:  # Python workers of Spark import this module and have no obstore
    from reconciler.evidence.store.files.table_store import TableStore

TRIES: Final = 8
"""Maximum number of attempts of :meth:`Lake.update`; each attempt fails because another writer was first."""

FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 2.0

FACTS: Final = "kquota"
"""Key of :class:`DayFacts` in the footer."""

_COVERED: Final = "covered_ppm "
"""Prefix of a broker id in ``counts``: the share of the day in which the broker answered scrapes."""

_PATH: Final = re.compile(r"(?:.*/)?cluster_id=([^/]+)/day=(\d{4}-\d\d-\d\d)/part\.parquet")
_CLUSTER: Final = re.compile(r"[A-Za-z0-9-][A-Za-z0-9._-]*")


class LakeClock(Protocol):
    """The clock that the lake needs; :class:`reconciler.base.protocols.Clock` satisfies it."""

    def now(self) -> float:
        """Return seconds since the epoch, UTC."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """What is replaced together: the rows of one table, cluster and UTC day."""

    table: Table
    cluster_id: str  # Kafka's cluster id
    day: date

    def __post_init__(self) -> None:
        if not _CLUSTER.fullmatch(self.cluster_id):
            raise LakeError(
                f"{self.cluster_id!r} cannot be the name of a folder",
                hint="Kafka's cluster ids are letters, digits, - and _",
            )

    @property
    def path(self) -> str:
        """The path of its object."""
        return (
            f"{cluster_folder(self.table, self.cluster_id)}/day={self.day.isoformat()}/part.parquet"
        )

    def __str__(self) -> str:
        return f"{self.table.name} of {self.cluster_id} on {self.day}"


def cluster_folder(table: Table, cluster_id: str) -> str:
    """Return the folder of a cluster in a table."""
    return f"{table.name}/cluster_id={cluster_id}"


class DayFacts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The facts of a day in the footer of its object."""

    schema_version: int
    unit: str  # of which table, cluster and day it is: an object in the wrong place is not read
    run_id: str
    made_ms: int
    # Named counts of the input and the coverage of brokers; see `states` and `coverage` of `StoredDay`.
    counts: dict[str, int]
    inputs: dict[str, str]  # provenance by name: digests, times
    partial: tuple[str, ...]  # sentences about what is missing


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDay:
    """A stored day: the footer of its object."""

    unit: Unit
    facts: DayFacts
    rows: int
    file: TableFile = field(repr=False, compare=False)
    version: str | None = None  # the version of the object; only of :meth:`Lake.day`

    @property
    def inputs(self) -> Mapping[str, str]:
        """What the day was made from, by name."""
        return self.facts.inputs

    @property
    def partial(self) -> tuple[str, ...]:
        """Sentences about what is missing."""
        return self.facts.partial

    @property
    def states(self) -> dict[str, int]:
        """The named counts of the input, for display."""
        return states_of(self.facts.counts)

    @property
    def coverage(self) -> dict[str, int]:
        """The share of the day in which each broker answered scrapes, in millionths."""
        return {
            name.removeprefix(_COVERED): share
            for name, share in self.facts.counts.items()
            if name.startswith(_COVERED)
        }

    @property
    def series(self) -> pa.Table:
        """The series of the day (:mod:`reconciler.evidence.store.series_index`).

        Raises:
            LakeDamaged: The list is not readable.
        """
        text = self.file.texts.get(series_index.KEY, "")
        try:
            return series_index.read(text)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise LakeDamaged(
                "the list of its series is damaged",
                path=self.file.shown,
                hint=parquet_files.WRITE_ANEW,
            ) from error


def counts_of(states: Mapping[str, int], coverage: Mapping[str, int]) -> dict[str, int]:
    """Merge named counts and the coverage of brokers into :attr:`DayFacts.counts`."""
    return {**states, **{f"{_COVERED}{broker}": share for broker, share in coverage.items()}}


def states_of(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the named counts of a day, without coverage (which is not a count) and zeros."""
    return {
        name: amount for name, amount in counts.items() if amount and not name.startswith(_COVERED)
    }


def states_of_all(days: Iterable[StoredDay]) -> dict[str, int]:
    """Add the named counts of several days of one table; tables that were assembled together have the same counts."""
    total: Counter[str] = Counter()
    for day in days:
        total.update(day.states)
    return dict(total)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitContent:
    """The next content of a unit."""

    rows: pa.Table
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    inputs: Mapping[str, str] = field(default_factory=dict[str, str])
    partial: tuple[str, ...] = ()


class LakeReader:
    """The tables of a store, for reading; workers of Spark have it, too."""

    def __init__(self, reader: TableReader) -> None:
        """Create the lake without any I/O."""
        self.reader = reader

    def days(
        self,
        table: Table,
        clusters: Collection[str] | None = None,
        from_day: date | None = None,
        to_day: date | None = None,
    ) -> tuple[StoredDay, ...]:
        """Return the stored days of a table, sorted by cluster and day.

        Args:
            clusters: Cluster ids; all by default.
            from_day: The first day.
            to_day: The last day, inclusive.

        Raises:
            LakeError: The store cannot be read, or an object is damaged.
        """
        return tuple(each(self.open, self.units(table, clusters, from_day, to_day)))

    def units(
        self,
        table: Table,
        clusters: Collection[str] | None = None,
        from_day: date | None = None,
        to_day: date | None = None,
    ) -> list[Unit]:
        """Return the units that have an object, sorted; one listing for the table, or one for each cluster.

        Raises:
            LakeError: The store cannot be listed.
        """
        folders = (
            [table.name]
            if clusters is None
            else [cluster_folder(table, name) for name in sorted(set(clusters))]
        )
        units: list[Unit] = []
        for path in (path for folder in folders for path in self.reader.paths(folder)):
            match = _PATH.fullmatch(path)
            if match is None or not _CLUSTER.fullmatch(match[1]):
                continue
            day = date.fromisoformat(match[2])
            if (from_day or day) <= day <= (to_day or day):
                units.append(Unit(table=table, cluster_id=match[1], day=day))
        return sorted(units, key=lambda unit: (unit.cluster_id, unit.day))

    def facts(self, unit: Unit) -> DayFacts | None:
        """Return the facts of a day; ``None`` if it is not stored, or damaged.

        Raises:
            LakeError: The store denies access or does not answer.
        """
        try:
            return self.open(unit).facts
        except LakeDamaged:
            return None

    def open(self, unit: Unit, version: str | None = None) -> StoredDay:
        """Return a stored day.

        Args:
            version: The version of its object, if a writer asked for it.

        Raises:
            LakeError: It is missing, damaged or cannot be read.
        """
        file = TableFile(self.reader, unit.path, unit.table)
        try:
            facts = msgspec.json.decode(file.texts.get(FACTS, ""), type=DayFacts)
        except msgspec.MsgspecError as error:
            raise LakeDamaged(
                f"its footer has no facts that kquota wrote ({error})",
                path=file.shown,
                hint=f"a newer version may have written it: upgrade kquota; otherwise {parquet_files.WRITE_ANEW}",
            ) from error
        if facts.schema_version != SCHEMA_VERSION:
            raise LakeDamaged(
                f"was written with schema version {facts.schema_version}; this program reads {SCHEMA_VERSION}",
                path=file.shown,
                hint="upgrade kquota here, or everywhere it writes to this place at once",
            )
        if facts.unit != str(unit):
            raise LakeDamaged(
                f"is {facts.unit}, in the wrong place",
                path=file.shown,
                hint=parquet_files.WRITE_ANEW,
            )
        return StoredDay(unit=unit, facts=facts, rows=file.rows, file=file, version=version)

    def read(
        self,
        days: Iterable[StoredDay],
        columns: Sequence[str] | None = None,
        *,
        table: Table,
        window: tuple[int, int] | None = None,
    ) -> pa.Table:
        """Return the rows of days of one table, in the order of the days, each sorted by the table's key.

        Args:
            columns: Column names; all by default.
            window: Only rows whose ``ts_ms`` is from the first to before the second.

        Raises:
            LakeError: An object is missing, damaged or replaced; the error has its path.
        """
        names = list(table.names if columns is None else columns)

        def rows(day: StoredDay) -> pa.Table:
            read_rows = day.file.read(list(dict.fromkeys([*names, *(["ts_ms"] if window else [])])))
            if window is not None:
                read_rows = within(read_rows, window)
            return arrow_tables.typed(table, read_rows, names, day.file.shown)

        schema = arrow_tables.schema(table)
        nothing = pa.schema([schema.field(name) for name in names]).empty_table()
        return pa.concat_tables([nothing, *each(rows, list(days))])


class Lake(LakeReader):
    """The tables of a store, for reading and writing."""

    def __init__(
        self,
        store: "TableStore",
        *,
        clock: LakeClock,
        run_id: str = "",
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """Create the lake without any I/O.

        Args:
            store: The store that contains the tables.
            clock: Gives the time at which days are made.
            run_id: Identifies the writer. Generated by default.
            pause: Waits between two attempts.
        """
        super().__init__(store)
        self.store = store
        self.run_id = run_id or f"run-{secrets.token_hex(6)}"
        self._clock = clock
        self._pause = pause

    def day(self, unit: Unit) -> StoredDay | None:
        """Return a stored day with the version that a writer replaces; ``None`` if there is none.

        Raises:
            LakeError: It cannot be read.
        """
        version = self.store.version(unit.path)
        return None if version is None else self.open(unit, version)

    def put(self, unit: Unit, content: UnitContent, after: StoredDay | None) -> StoredDay:
        """Replace the content of a unit whole.

        Args:
            after: The day to replace, from :meth:`day`; ``None`` if there is none.

        Raises:
            LakeConflict: Another writer replaced it meanwhile: read it again and repeat the change.
            LakeError: The rows do not fit the table or the unit, or the store fails.
        """
        _check_rows(unit, content.rows)
        facts = DayFacts(
            schema_version=SCHEMA_VERSION,
            unit=str(unit),
            run_id=self.run_id,
            made_ms=int(self._clock.now() * 1000),
            counts=dict(sorted(content.counts.items())),
            inputs=dict(sorted(content.inputs.items())),
            partial=content.partial,
        )
        rows = arrow_tables.conformed(unit.table, content.rows)
        texts = {FACTS: msgspec.json.encode(facts).decode()}
        if series_index.applies_to(unit.table):
            texts[series_index.KEY] = series_index.written(rows)
        written = parquet_files.write_parquet(unit.table, rows, texts)
        self.store.put(unit.path, written, after=after.version if after else None)
        return self.open(unit)

    def update(
        self, unit: Unit, make: Callable[[StoredDay | None], UnitContent | None]
    ) -> StoredDay | None:
        """Read a unit, create its next content and put it; repeat if another writer was first.

        Args:
            make: Maps the stored day to the next content, or to ``None`` to leave it; may be called several times.

        Returns:
            The stored day; ``None`` if there is none.

        Raises:
            LakeConflict: Another writer was first :data:`TRIES` times.
            LakeError: As in :meth:`put`.
        """
        for attempt in range(TRIES):
            after = self.day(unit)
            content = make(after)
            if content is None:
                return after
            try:
                return self.put(unit, content, after)
            except LakeConflict:
                if attempt + 1 == TRIES:
                    raise
                self._pause(self._backoff(unit, attempt))
        raise AssertionError(TRIES)

    def replace(self, unit: Unit, content: UnitContent) -> StoredDay:
        """Replace the content of a unit, whatever it is; errors as for :meth:`update`."""
        return cast("StoredDay", self.update(unit, lambda _: content))

    def add(self, unit: Unit, missing: Callable[[pa.Table], pa.Table]) -> int:
        """Add rows to a unit; create the unit if it does not exist.

        Args:
            missing: Maps the existing rows to the rows to add; may be called several times.

        Returns:
            The number of added rows.

        Raises:
            LakeConflict: Other writers were first on every attempt.
            LakeError: The lake cannot be read or written.
        """
        count = 0

        def make(after: StoredDay | None) -> UnitContent | None:
            nonlocal count
            existing_rows = self.read([after] if after else [], table=unit.table)
            new = missing(existing_rows)
            count = new.num_rows
            if not count and after is not None:
                return None
            return UnitContent(rows=pa.concat_tables([existing_rows, new]))

        _ = self.update(unit, make)
        return count

    def _backoff(self, unit: Unit, attempt: int) -> float:
        # Writers that collided must wait for different times: derived from their run ids, not random.
        seed = hashlib.sha256(f"{self.run_id} {unit} {attempt}".encode()).digest()
        longest: float = min(FIRST_PAUSE * 2**attempt, LONGEST_PAUSE)
        return longest * (0.5 + seed[0] / 255)


def within(rows: pa.Table, window: tuple[int, int], column: str = "ts_ms") -> pa.Table:
    """Return the rows whose time lies in a window, its end exclusive."""
    ts = rows.column(column)
    is_inside = pc.and_(pc.greater_equal(ts, window[0]), pc.less(ts, window[1]))
    return rows if pc.all(is_inside).as_py() in {True, None} else rows.filter(is_inside)


def _check_rows(unit: Unit, rows: pa.Table) -> None:
    """Raise LakeError for rows of another cluster or day, which readers would not find."""
    for name, expected in (("cluster_id", unit.cluster_id), ("day", unit.day)):
        if name not in rows.schema.names:
            continue
        unexpected_values = [
            value for value in pc.unique(rows.column(name)).to_pylist() if value != expected
        ]
        if unexpected_values:
            raise LakeError(f"rows for {unit} have {name} = {unexpected_values[0]}")
