"""The lake: units committed whole, generation by generation, read through their manifests only."""

import contextlib
import hashlib
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from reconciler.errors import LakeConflict, LakeDamaged, LakeError
from reconciler.evidence.store import manifest as manifests_
from reconciler.evidence.store.files import arrow_tables, parquet_files
from reconciler.evidence.store.files.object_store import FileStore
from reconciler.evidence.store.files.thread_pool import each
from reconciler.evidence.store.json_object import MOST_BYTES
from reconciler.evidence.store.manifest import Manifest, Unit, UnitFile
from reconciler.usage.tables import SCHEMA_VERSION, Table

TRIES: Final = 8
"""So often :meth:`Lake.update` begins again. Each time another writer has committed, so this many writers of one unit are no accident."""

FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 2.0


class LakeClock(Protocol):
    """A clock, as far as the lake needs one; :class:`reconciler.base.protocols.Clock` is one."""

    def now(self) -> float:
        """Seconds since the epoch, UTC."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitContent:
    """What a unit shall hold: rows, or files that are already in the store.

    Attributes:
        rows: Its rows; ``None`` = see ``files``.
    """

    rows: pa.Table | None = None
    files: tuple[UnitFile, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    inputs: Mapping[str, str] = field(default_factory=dict[str, str])
    partial: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.rows is not None and self.files:
            raise LakeError("a unit is made of rows or of files, not of both")


class Lake:
    """Tables in a store."""

    def __init__(
        self,
        store: FileStore,
        *,
        clock: LakeClock,
        run_id: str = "",
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """Nothing is read or written yet.

        Args:
            store: Where.
            clock: Says when manifests are made.
            run_id: Who writes; stands in manifests and names of files. Made up by default.
            pause: Waits between two tries.
        """
        self.store = store
        self.run_id = run_id or f"run-{secrets.token_hex(6)}"
        self._clock = clock
        self._pause = pause

    @property
    def now_ms(self) -> int:
        """Now, by the clock that manifests are made by."""
        return int(self._clock.now() * 1000)

    def manifest(self, unit: Unit) -> Manifest | None:
        """The newest generation of a unit; ``None`` = there is none.

        Raises:
            LakeError: It cannot be read.
        """
        newest = manifests_.newest(path for path, _ in self.store.paths(unit.manifests))
        return self._read(newest[unit.manifests], unit) if newest else None

    def manifests(
        self,
        table: Table,
        clusters: Collection[str] | None = None,
        from_day: date | None = None,
        to_day: date | None = None,
    ) -> tuple[Manifest, ...]:
        """The newest generation of each unit of a table, sorted by cluster and day.

        The store is asked for one listing of the table (of each cluster, if clusters are named).

        Args:
            table: Which table.
            clusters: Of these cluster ids; of all by default.
            from_day: The first day.
            to_day: The last day, included.

        Raises:
            LakeError: A manifest cannot be read.
        """
        folders = (
            [f"{table.name}/{manifests_.UNITS}"]
            if clusters is None
            else [
                manifests_.cluster_manifests(table, cluster_id)
                for cluster_id in sorted(set(clusters))
            ]
        )
        folder_paths = (path for folder in folders for path, _ in self.store.paths(folder))
        manifest_paths = [
            path
            for folder, path in sorted(manifests_.newest(folder_paths).items())
            if manifests_.is_within(folder, from_day, to_day)
        ]
        manifests = each(self._read, manifest_paths)
        return tuple(
            sorted(
                (manifest for manifest in manifests if manifest is not None),
                key=lambda manifest: (manifest.unit.cluster_id, manifest.unit.day),
            )
        )

    def commit(
        self,
        unit: Unit,
        rows: pa.Table,
        after: Manifest | None,
        *,
        counts: Mapping[str, int] | None = None,
        inputs: Mapping[str, str] | None = None,
        partial: Sequence[str] = (),
    ) -> Manifest:
        """Makes rows the content of a unit: all of them, or nothing is changed.

        Args:
            unit: Which unit.
            rows: All its rows.
            after: The generation that they replace; ``None`` = there is none.
            counts: Named states of what went in.
            inputs: What they were made from.
            partial: What is missing of them, in sentences.

        Raises:
            LakeConflict: Another writer committed the unit meanwhile: read it anew and make it again.
            LakeError: The rows do not fit the table or the unit, or the store refuses.
        """
        _check_rows(unit, rows)
        files: tuple[UnitFile, ...] = ()
        if rows.num_rows:
            content = parquet_files.write_parquet(unit.table, rows)
            path = f"{unit.folder}/{self.new_name()}.parquet"
            self.store.put(path, content, create=True)
            files = (_file(path, content, rows.num_rows),)
        try:
            return self.commit_files(
                unit, files, after, counts=counts, inputs=inputs, partial=partial
            )
        except LakeConflict:
            with contextlib.suppress(LakeError):  # what stays is removed by `expire`
                self.store.delete(file.path for file in files)
            raise

    def commit_files(
        self,
        unit: Unit,
        files: Iterable[UnitFile],
        after: Manifest | None,
        *,
        counts: Mapping[str, int] | None = None,
        inputs: Mapping[str, str] | None = None,
        partial: Sequence[str] = (),
    ) -> Manifest:
        """Makes files that are already in the store the content of a unit; arguments and errors as for :meth:`commit`.

        They should lie in :attr:`Unit.folder` and must be less than a day old, or ``expire`` may take them for left-overs.
        """
        newest = self._generation(unit)
        expected = after.generation if after else 0
        if after is not None and after.unit != unit:
            raise LakeError(f"{after.unit} cannot come before {unit}")
        manifest = Manifest(
            unit=unit,
            generation=expected + 1,
            schema_version=SCHEMA_VERSION,
            run_id=self.run_id,
            created_ms=self.now_ms,
            files=tuple(sorted(files, key=lambda file: file.path)),
            counts=dict(counts or {}),
            inputs=dict(inputs or {}),
            partial=tuple(partial),
        )
        if newest != expected:
            raise self._conflict(unit, newest)
        try:
            self.store.put(manifest.path, manifest.json(), create=True)
        except LakeConflict as error:
            raise self._conflict(unit, expected + 1) from error
        return manifest

    def update(self, unit: Unit, make: Callable[[Manifest | None], UnitContent]) -> Manifest:
        """Reads a unit, makes what comes after it, commits; begins again if another writer was quicker.

        Args:
            unit: Which unit.
            make: From the newest generation to the next content; may be called several times.

        Raises:
            LakeConflict: Others were quicker :data:`TRIES` times.
            LakeError: As for :meth:`commit`.
        """
        for attempt in range(TRIES):
            after = self.manifest(unit)
            content = make(after)
            try:
                return self._commit_content(unit, content, after)
            except LakeConflict:
                if attempt + 1 == TRIES:
                    raise
                self._pause(self._backoff(unit, attempt))
        raise AssertionError(TRIES)

    def read(
        self,
        manifests: Iterable[Manifest],
        columns: Sequence[str] | None = None,
        row_filter: pc.Expression | None = None,
        *,
        table: Table | None = None,
    ) -> pa.Table:
        """The rows of some units of one table, in the order of the units, each sorted by the table's key.

        Args:
            manifests: Which units.
            columns: Which columns; all by default.
            row_filter: Which rows, for example ``pc.field("ts_ms") >= 5``.
            table: Which table, where there may be no units.

        Raises:
            LakeError: A file is missing, cut off, damaged or not the one that was committed; its path is named.
        """
        units = tuple(manifests)
        tables = {manifest.unit.table.name: manifest.unit.table for manifest in units}
        if len(tables) > 1:
            raise LakeError(f"units of {' and '.join(sorted(tables))} cannot be read as one table")
        kind = table or next(iter(tables.values()), None)
        if kind is None:
            return pa.table({})

        def rows(file: UnitFile) -> pa.Table:
            content = self.content(file)
            where_ = self.store.display_path(file.path)
            return parquet_files.read(
                kind, content, path=where_, columns=columns, row_filter=row_filter, rows=file.rows
            )

        files = [file for manifest in units for file in manifest.files]
        expected_schema = arrow_tables.schema(kind)
        if columns is not None:
            fields = [expected_schema.field(name) for name in columns]
            expected_schema = pa.schema(fields, metadata=expected_schema.metadata)
        return pa.concat_tables([expected_schema.empty_table(), *each(rows, files)])

    def measure_file(self, path: str) -> UnitFile:
        """A Parquet file that another program wrote into the store, measured for :meth:`commit_files`.

        Raises:
            LakeError: It is missing, or no whole Parquet file.
        """
        content = self.store.get(path)
        return _file(path, content, parquet_files.count(content, self.store.display_path(path)))

    def new_name(self) -> str:
        """The begin of a file's name that no other writer uses."""
        return f"{manifests_.safe(self.run_id)}-{secrets.token_hex(6)}"

    def _commit_content(self, unit: Unit, content: UnitContent, after: Manifest | None) -> Manifest:
        counts, inputs, partial = content.counts, content.inputs, content.partial
        if content.rows is not None:
            return self.commit(
                unit, content.rows, after, counts=counts, inputs=inputs, partial=partial
            )
        return self.commit_files(
            unit, content.files, after, counts=counts, inputs=inputs, partial=partial
        )

    def content(self, file: UnitFile) -> bytes:
        """A committed file.

        Raises:
            LakeDamaged: It is missing, or not the one that was committed.
        """
        content = self.store.find(file.path, max_bytes=file.size + 1)
        location = self.store.display_path(file.path)
        if content is None:
            raise LakeDamaged(
                "a manifest names this file, and it is not there",
                path=location,
                hint=parquet_files.WRITE_ANEW,
            )
        parquet_files.check_same(content, size=file.size, sha256=file.sha256, path=location)
        return content

    def _read(self, path: str, unit: Unit | None = None) -> Manifest | None:
        content = self.store.find(path, max_bytes=MOST_BYTES)
        if content is None:
            return None  # its unit expired since it was listed: a newer generation stays for a day beside it
        manifest = manifests_.read(content, self.store.display_path(path), unit)
        if manifest.path != path:
            raise LakeDamaged(
                f"is a manifest of {manifest.unit}, generation {manifest.generation}, in the wrong place",
                path=self.store.display_path(path),
            )
        return manifest

    def _generation(self, unit: Unit) -> int:
        newest = manifests_.newest(path for path, _ in self.store.paths(unit.manifests))
        return manifests_.number_of(newest.get(unit.manifests, "")) or 0

    def _conflict(self, unit: Unit, generation: int) -> LakeConflict:
        return LakeConflict(
            f"another writer committed {unit} meanwhile (generation {generation})",
            path=self.store.display_path(unit.generation(generation)),
            hint="run it again; it takes up what the other one did",
        )

    def _backoff(self, unit: Unit, attempt: int) -> float:
        # Writers that collided must not wait equally long: their names decide, not chance.
        seed = hashlib.sha256(f"{self.run_id} {unit} {attempt}".encode()).digest()
        longest: float = min(FIRST_PAUSE * 2**attempt, LONGEST_PAUSE)
        return longest * (0.5 + seed[0] / 255)


def _file(path: str, content: bytes, rows: int) -> UnitFile:
    return UnitFile(
        path=path, size=len(content), rows=rows, sha256=hashlib.sha256(content).hexdigest()
    )


def _check_rows(unit: Unit, rows: pa.Table) -> None:
    """Rows of another cluster or day would not be found by readers."""
    for name, expected in (("cluster_id", unit.cluster_id), ("day", unit.day)):
        if name not in rows.schema.names:
            continue
        strange = [value for value in pc.unique(rows.column(name)).to_pylist() if value != expected]
        if strange:
            raise LakeError(f"rows for {unit} have {name} = {strange[0]}")
