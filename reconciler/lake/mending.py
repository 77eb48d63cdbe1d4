"""Units whose files are damaged or gone, begun anew on demand with what is whole; and what is told of them until it came again."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from reconciler import foreign_json
from reconciler.errors import LakeDamaged
from reconciler.lake import manifest as manifests_
from reconciler.lake.lake import Lake
from reconciler.lake.looks import begin_ms
from reconciler.lake.manifest import File, Manifest, Unit
from reconciler.lake.pool import each
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
class GivenUp:
    """A unit that was begun anew.

    Attributes:
        unit: Which one.
        lost: Rows that it had.
        kept: Rows that it has still, of whole files or of a generation before.
    """

    unit: Unit
    lost: int
    kept: int

    def __str__(self) -> str:
        return (
            f"{self.unit} was damaged and begun anew: {self.kept:,} of {self.lost:,} rows are left"
        )


def given_up(
    lake: Lake, table: Table, cluster_id: str, from_day: date, to_day: date
) -> tuple[GivenUp, ...]:
    """Begins units anew whose files are missing or have other bytes; whole ones are not touched.

    What is whole stays: other files of the unit, or those of the newest generation before that is whole, since rows are
    only ever added to these tables. What is missing is told in the manifest until as many rows came again
    (:func:`regained`).

    Args:
        lake: Where.
        table: One of :data:`BROUGHT`.
        cluster_id: Of which cluster.
        from_day: The first day.
        to_day: The last day, included.

    Raises:
        LakeConflict: Somebody else committed such a unit meanwhile.
        LakeError: The lake cannot be read or written, or a manifest is damaged.
    """
    found: list[GivenUp] = []
    for one in lake.manifests(table, [cluster_id], from_day, to_day):
        whole = _whole(lake, one)
        if len(whole) == len(one.files):
            continue
        kept = max((whole, _before(lake, one)), key=_rows)
        inputs = {**one.inputs, BEGAN: lake.new_name(), LOST: _lost(one)}
        told = (
            *(line for line in one.partial if line not in sentences(one.inputs)),
            *sentences(inputs),
        )
        _ = lake.commit_files(one.unit, kept, one, counts=one.counts, inputs=inputs, partial=told)
        found.append(GivenUp(unit=one.unit, lost=one.rows, kept=_rows(kept)))
    return tuple(found)


def regained(table: Table, inputs: Mapping[str, str], rows: pa.Table) -> dict[str, str]:
    """What a unit was made from, once it has these rows: nothing is lost any more if as many as before are there again."""
    if LOST not in inputs:
        return dict(inputs)
    lost, until = foreign_json.parse(inputs[LOST], most_bytes=foreign_json.SMALL)
    there = int(pc.sum(pc.less(rows.column(BROUGHT[table]), until)).as_py() or 0)
    return {name: text for name, text in inputs.items() if name != LOST or there < lost}


def sentences(inputs: Mapping[str, str]) -> tuple[str, ...]:
    """What is lost of a unit, for people; nothing = nothing is."""
    if LOST not in inputs:
        return ()
    lost, until = foreign_json.parse(inputs[LOST], most_bytes=foreign_json.SMALL)
    moment = datetime.fromtimestamp(until / 1000, UTC)
    had = f"{lost:,} rows that the lake had of it up to {moment:%Y-%m-%d %H:%M} UTC"
    return (f"{had} were damaged, and not as many came again",)


def _lost(damaged: Manifest) -> str:
    begin = begin_ms(damaged.unit.day)
    end = begin + DAY_MS
    until = min(damaged.made_ms, end) if damaged.made_ms > begin else end
    before = foreign_json.parse(damaged.inputs.get(LOST, "[0, 0]"), most_bytes=foreign_json.SMALL)
    return json.dumps([max(damaged.rows, before[0]), max(until, before[1])])


def _rows(files: tuple[File, ...]) -> int:
    return sum(one.rows for one in files)


def _whole(lake: Lake, manifest: Manifest) -> tuple[File, ...]:
    """The files of a generation that are as they were committed."""

    def is_whole(file: File) -> bool:
        try:
            _ = lake.content(file)
        except LakeDamaged:
            return False
        return True

    checked = each(is_whole, manifest.files)
    return tuple(one for one, whole in zip(manifest.files, checked, strict=True) if whole)


def _before(lake: Lake, damaged: Manifest) -> tuple[File, ...]:
    """The files of the newest whole generation before; none if there is none."""
    for number in range(damaged.generation - 1, 0, -1):
        path = damaged.unit.generation(number)
        content = lake.store.find(path)
        if content is None:
            continue
        try:
            found = manifests_.read(content, lake.store.where(path), damaged.unit)
        except LakeDamaged:
            continue
        if len(_whole(lake, found)) == len(found.files):
            return found.files
    return ()
