"""Units whose files are damaged or gone, begun anew on demand with what is whole; and what is reported of them until it came again."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from reconciler.base import bounded_json
from reconciler.errors import LakeDamaged
from reconciler.evidence.store import manifest as manifests_
from reconciler.evidence.store.files.thread_pool import each
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.manifest import Manifest, Unit, UnitFile
from reconciler.evidence.store.quota_snapshots import begin_ms
from reconciler.usage.samples import DAY_MS
from reconciler.usage.tables import APPLY_LOG, POINT, QUOTA_ENTRY, SNAPSHOT, Table

BROUGHT: Final[Mapping[Table, str]] = {
    POINT: "ts_ms",
    SNAPSHOT: "observed_at_ms",
    QUOTA_ENTRY: "observed_at_ms",
    APPLY_LOG: "applied_at_ms",
}
"""Tables of what was read or brought in, which nothing in the lake can make again; and the column of their time."""

BEGAN: Final = "began"
"""Which beginning of a unit its rows go back to. Units that expired, or were given up, begin anew."""

LOST: Final = "lost"
"""How many rows a damaged unit had, and until when they were committed, as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairedUnit:
    """A unit that was begun anew.

    Attributes:
        unit: Which one.
        lost_rows: Rows that it had.
        retained_rows: Rows that it has still, of whole files or of a generation before.
    """

    unit: Unit
    lost_rows: int
    retained_rows: int

    def __str__(self) -> str:
        return f"{self.unit} was damaged and begun anew: {self.retained_rows:,} of {self.lost_rows:,} rows are left"


def given_up(
    lake: Lake, table: Table, cluster_id: str, from_day: date, to_day: date
) -> tuple[RepairedUnit, ...]:
    """Begins units anew whose files are missing or have other bytes; whole ones are not touched.

    What is whole stays: other files of the unit, or those of the newest generation before that is whole, since rows are
    only ever added to these tables. What is missing is recorded in the manifest until as many rows came again
    (:func:`regained`).

    Args:
        lake: Where.
        table: One of :data:`BROUGHT`.
        cluster_id: Of which cluster.
        from_day: The first day.
        to_day: The last day, included.

    Raises:
        LakeConflict: Another writer committed such a unit meanwhile.
        LakeError: The lake cannot be read or written, or a manifest is damaged.
    """
    repaired_units: list[RepairedUnit] = []
    for manifest in lake.manifests(table, [cluster_id], from_day, to_day):
        intact_files = _intact_files(lake, manifest)
        if len(intact_files) == len(manifest.files):
            continue
        retained_files = max((intact_files, _before(lake, manifest)), key=_rows)
        inputs = {**manifest.inputs, BEGAN: lake.new_name(), LOST: _loss_record(manifest)}
        partial_sentences = (
            *(line for line in manifest.partial if line not in sentences(manifest.inputs)),
            *sentences(inputs),
        )
        _ = lake.commit_files(
            manifest.unit,
            retained_files,
            manifest,
            counts=manifest.counts,
            inputs=inputs,
            partial=partial_sentences,
        )
        repaired_units.append(
            RepairedUnit(
                unit=manifest.unit, lost_rows=manifest.rows, retained_rows=_rows(retained_files)
            )
        )
    return tuple(repaired_units)


def regained(table: Table, inputs: Mapping[str, str], rows: pa.Table) -> dict[str, str]:
    """What a unit was made from, once it has these rows: nothing is lost any more if as many as before are there again."""
    if LOST not in inputs:
        return dict(inputs)
    lost_rows, until = bounded_json.parse(inputs[LOST], most_bytes=bounded_json.SMALL)
    present_rows = int(pc.sum(pc.less(rows.column(BROUGHT[table]), until)).as_py() or 0)
    return {name: text for name, text in inputs.items() if name != LOST or present_rows < lost_rows}


def sentences(inputs: Mapping[str, str]) -> tuple[str, ...]:
    """What is lost of a unit, for people; nothing = nothing is."""
    if LOST not in inputs:
        return ()
    lost_rows, until = bounded_json.parse(inputs[LOST], most_bytes=bounded_json.SMALL)
    moment = datetime.fromtimestamp(until / 1000, UTC)
    had = f"{lost_rows:,} rows that the lake had of it up to {moment:%Y-%m-%d %H:%M} UTC"
    return (f"{had} were damaged, and not as many came again",)


def _loss_record(damaged: Manifest) -> str:
    begin = begin_ms(damaged.unit.day)
    end = begin + DAY_MS
    until = min(damaged.created_ms, end) if damaged.created_ms > begin else end
    before = bounded_json.parse(damaged.inputs.get(LOST, "[0, 0]"), most_bytes=bounded_json.SMALL)
    return json.dumps([max(damaged.rows, before[0]), max(until, before[1])])


def _rows(files: tuple[UnitFile, ...]) -> int:
    return sum(file.rows for file in files)


def _intact_files(lake: Lake, manifest: Manifest) -> tuple[UnitFile, ...]:
    """The files of a generation that are as they were committed."""

    def is_whole(file: UnitFile) -> bool:
        try:
            _ = lake.content(file)
        except LakeDamaged:
            return False
        return True

    checked = each(is_whole, manifest.files)
    return tuple(file for file, is_intact in zip(manifest.files, checked, strict=True) if is_intact)


def _before(lake: Lake, damaged: Manifest) -> tuple[UnitFile, ...]:
    """The files of the newest whole generation before; none if there is none."""
    for number in range(damaged.generation - 1, 0, -1):
        path = damaged.unit.generation(number)
        content = lake.store.find(path)
        if content is None:
            continue
        try:
            manifest = manifests_.read(content, lake.store.display_path(path), damaged.unit)
        except LakeDamaged:
            continue
        if len(_intact_files(lake, manifest)) == len(manifest.files):
            return manifest.files
    return ()
