"""Units that rows are added to, and those whose files are damaged: begun anew on demand, the loss recorded until as many rows came again."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Final

import pyarrow as pa

from reconciler.errors import LakeDamaged
from reconciler.evidence.store.lake import Lake, UnitContent
from reconciler.evidence.store.manifest import Manifest, Unit
from reconciler.usage.tables import (
    APPLY_LOG,
    BROKER_SAMPLE,
    QUOTA_ENTRY,
    SNAPSHOT,
    TARGET_UP,
    USAGE_SAMPLE,
    Table,
)

BROUGHT: Final = (BROKER_SAMPLE, TARGET_UP, USAGE_SAMPLE, SNAPSHOT, QUOTA_ENTRY, APPLY_LOG)
"""Tables of what was read or brought in, which nothing in the lake can make again."""

LOST: Final = "lost_rows"
"""How many rows a unit had before its files were damaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairedUnit:
    """A unit that was begun anew.

    Attributes:
        unit: Which unit.
    """

    unit: Unit
    lost_rows: int
    retained_rows: int

    def __str__(self) -> str:
        return f"{self.unit} was damaged and begun anew: {self.retained_rows:,} of {self.lost_rows:,} rows are left"


def given_up(
    lake: Lake, table: Table, cluster_id: str, from_day: date, to_day: date
) -> tuple[RepairedUnit, ...]:
    """Begins units anew whose files are missing or have other bytes; intact files and intact units stay.

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
    return tuple(
        _begun_anew(lake, manifest)
        for manifest in lake.manifests(table, [cluster_id], from_day, to_day)
        if not all(_is_intact(lake, manifest))
    )


def regained(inputs: Mapping[str, str], rows: int) -> dict[str, str]:
    """What a unit was made from, once it has these rows: nothing is lost any more if as many as before are there again."""
    return {name: text for name, text in inputs.items() if name != LOST or rows < int(inputs[LOST])}


def sentences(inputs: Mapping[str, str]) -> tuple[str, ...]:
    """What is lost of a unit, for people; nothing = nothing is."""
    if LOST not in inputs:
        return ()
    return (f"{int(inputs[LOST]):,} rows were damaged, and not as many came again",)


def _begun_anew(lake: Lake, manifest: Manifest) -> RepairedUnit:
    intact_files = tuple(
        file
        for file, is_intact in zip(manifest.files, _is_intact(lake, manifest), strict=True)
        if is_intact
    )
    lost_rows = max(manifest.rows, int(manifest.inputs.get(LOST, "0")))
    inputs = {**manifest.inputs, LOST: str(lost_rows)}
    earlier = sentences(manifest.inputs)
    repaired = lake.commit_files(
        manifest.unit,
        intact_files,
        manifest,
        counts=manifest.counts,
        inputs=inputs,
        partial=(*(line for line in manifest.partial if line not in earlier), *sentences(inputs)),
    )
    return RepairedUnit(unit=manifest.unit, lost_rows=manifest.rows, retained_rows=repaired.rows)


def _is_intact(lake: Lake, manifest: Manifest) -> list[bool]:
    """For each file of a unit whether it is as it was committed."""
    checks: list[bool] = []
    for file in manifest.files:
        try:
            _ = lake.content(file)
        except LakeDamaged:
            checks.append(False)
        else:
            checks.append(True)
    return checks


class NoNewRowsError(Exception):
    """Raised inside :meth:`Lake.update`: the unit says all of it already, so nothing is committed."""


def added(lake: Lake, unit: Unit, missing: Callable[[pa.Table], pa.Table]) -> int:
    """Adds rows to a unit, and makes the unit if there is none.

    Args:
        lake: Where.
        unit: Which unit.
        missing: From the rows that are there to those that have to come; may be called several times.

    Returns:
        How many rows came.

    Raises:
        LakeConflict: Others were quicker again and again.
        LakeError: The lake cannot be read or written.
    """
    count = 0

    def make(after: Manifest | None) -> UnitContent:
        nonlocal count
        existing_rows = lake.read([after] if after else [], table=unit.table)
        new = missing(existing_rows)
        if not new.num_rows and after is not None:
            raise NoNewRowsError
        count = new.num_rows
        rows = pa.concat_tables([existing_rows, new])
        inputs = regained(after.inputs if after else {}, rows.num_rows)
        return UnitContent(rows=rows, inputs=inputs, partial=sentences(inputs))

    try:
        _ = lake.update(unit, make)
    except NoNewRowsError:
        return 0
    return count
