"""Adds rows to units, and recreates damaged units; the loss is recorded until as many rows exist again."""

from collections.abc import Callable, Mapping
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
"""Tables with imported data, which cannot be computed from other tables."""

LOST: Final = "lost_rows"
"""Name of the manifest input with the number of rows before files were damaged."""


def given_up(
    lake: Lake, table: Table, cluster_id: str, from_day: date, to_day: date
) -> tuple[str, ...]:
    """Recreate units with a missing or modified file, without rows; return a sentence for each.

    Args:
        table: One of :data:`BROUGHT`.
        from_day: The first day.
        to_day: The last day, inclusive.

    Raises:
        LakeConflict: Another writer committed such a unit meanwhile.
        LakeError: The lake cannot be read or written, or a manifest is damaged.
    """
    return tuple(
        _begun_anew(lake, manifest)
        for manifest in lake.manifests(table, [cluster_id], from_day, to_day)
        if not _is_intact(lake, manifest)
    )


def regained(inputs: Mapping[str, str], rows: int) -> dict[str, str]:
    """Return the inputs for a unit with this many rows, without :data:`LOST` if the lost rows were replaced."""
    return {name: text for name, text in inputs.items() if name != LOST or rows < int(inputs[LOST])}


def sentences(inputs: Mapping[str, str]) -> tuple[str, ...]:
    """Return the warning about lost rows of a unit, if any."""
    if LOST not in inputs:
        return ()
    return (f"some of {int(inputs[LOST]):,} rows were lost and not imported again",)


def _begun_anew(lake: Lake, manifest: Manifest) -> str:
    lost_rows = max(manifest.rows, int(manifest.inputs.get(LOST, "0")))
    inputs = {**manifest.inputs, LOST: str(lost_rows)}
    earlier = sentences(manifest.inputs)
    partial = (*(line for line in manifest.partial if line not in earlier), *sentences(inputs))
    _ = lake.commit_files(
        manifest.unit, (), manifest, counts=manifest.counts, inputs=inputs, partial=partial
    )
    return f"{manifest.unit} was damaged and recreated without its {manifest.rows:,} rows"


def _is_intact(lake: Lake, manifest: Manifest) -> bool:
    """Return whether the files of a unit are as they were committed."""
    try:
        for file in manifest.files:
            _ = lake.content(file)
    except LakeDamaged:
        return False
    return True


class NoNewRowsError(Exception):
    """Raised inside :meth:`Lake.update` if the unit already has all rows, so that nothing is committed."""


def added(lake: Lake, unit: Unit, missing: Callable[[pa.Table], pa.Table]) -> int:
    """Add rows to a unit; create the unit if it does not exist.

    Args:
        missing: Maps the existing rows to the rows to add; may be called several times.

    Returns:
        The number of added rows.

    Raises:
        LakeConflict: Other writers committed first on every attempt.
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
