"""Rows that are only ever added to a unit of the lake; what is there already is not written again."""

from collections.abc import Callable

import pyarrow as pa

from reconciler.evidence.store.lake import Lake, UnitContent
from reconciler.evidence.store.manifest import Manifest, Unit
from reconciler.evidence.store.unit_repair import regained, sentences


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
