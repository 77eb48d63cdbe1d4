"""The lake: plain tables, one Parquet object for each table, cluster and day: ``TABLE/cluster_id=…/day=…/part.parquet``.

What a day was made from is in the footer of its object, so that rows and facts are replaced together. An object is put
whole, over the version that was read: of two writers of one day one wins and the other repeats its work.
"""

import hashlib
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import date
from typing import TYPE_CHECKING, Final, cast

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from reconciler.base.protocols import Clock
from reconciler.errors import LakeConflict, LakeDamaged, LakeError
from reconciler.evidence.store import stored_days
from reconciler.evidence.store.files import arrow_tables, parquet_files
from reconciler.evidence.store.files.parquet_files import TableFile
from reconciler.evidence.store.files.table_reader import StoredFile, TableReader, each
from reconciler.evidence.store.stored_days import (
    FACTS,
    DayFacts,
    StoredDay,
    Unit,
    UnitContent,
    cluster_folder,
    unit_at,
)
from reconciler.usage.tables import SCHEMA_VERSION, Table

if TYPE_CHECKING:  # Python workers of Spark import this module and have no obstore
    from reconciler.evidence.store.files.table_store import TableStore

TRIES: Final = 8
"""Maximum number of attempts of :meth:`Lake.update`; each attempt fails because another writer was first."""

FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 2.0


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
            unit = unit_at(table, path)
            if unit is not None and (from_day or unit.day) <= unit.day <= (to_day or unit.day):
                units.append(unit)
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

    def open(self, unit: Unit, stored: StoredFile | None = None) -> StoredDay:
        """Return a stored day.

        Args:
            stored: Its object, if a writer has it; by default only the parts that are needed are fetched.

        Raises:
            LakeError: It is missing, damaged or cannot be read.
        """
        file = TableFile(self.reader, unit.path, unit.table, stored and stored.content)
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
        version = stored and stored.version
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
        clock: Clock,
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

        It is fetched with one request: parts could come from two objects while another writer replaces it.

        Raises:
            LakeError: It cannot be read.
        """
        stored = self.store.stored(unit.path)
        return None if stored is None else self.open(unit, stored)

    def put(self, unit: Unit, content: UnitContent, after: StoredDay | None) -> StoredDay:
        """Replace the content of a unit whole.

        Args:
            after: The day to replace, from :meth:`day`; ``None`` if there is none.

        Raises:
            LakeConflict: Another writer replaced it meanwhile: read it again and repeat the change.
            LakeError: The rows do not fit the table or the unit, or the store fails.
        """
        return self._put(unit, content, after.version if after else None)

    def _put(self, unit: Unit, content: UnitContent, version: str | None) -> StoredDay:
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
        if stored_days.lists_series(unit.table):
            texts[stored_days.SERIES_KEY] = stored_days.series_text(rows)
        written = parquet_files.write_parquet(unit.table, rows, texts)
        self.store.put(unit.path, written, after=version)
        return self.open(unit, StoredFile(written))

    def update(
        self,
        unit: Unit,
        make: Callable[[StoredDay | None], UnitContent | None],
        *,
        is_derived: bool = False,
    ) -> StoredDay | None:
        """Read a unit, create its next content and put it; repeat if another writer was first.

        Args:
            make: Maps the stored day to the next content, or to ``None`` to leave it; may be called several times.
            is_derived: Whether a damaged object counts as none, because its content follows from other tables.

        Returns:
            The stored day; ``None`` if there is none.

        Raises:
            LakeConflict: Another writer was first :data:`TRIES` times.
            LakeError: As in :meth:`put`.
        """
        for attempt in range(TRIES):
            version = None
            try:
                after = self.day(unit)
                version = after.version if after else None
            except LakeDamaged:
                if not is_derived:
                    raise
                after, version = None, self.store.version(unit.path)
            content = make(after)
            if content is None:
                return after
            try:
                return self._put(unit, content, version)
            except LakeConflict:
                if attempt + 1 == TRIES:
                    raise
                self._pause(self._backoff(unit, attempt))
        raise AssertionError(TRIES)

    def replace(self, unit: Unit, content: UnitContent) -> StoredDay:
        """Replace the content of a unit, whatever it is; errors as for :meth:`update`."""
        return cast("StoredDay", self.update(unit, lambda _: content, is_derived=True))

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
