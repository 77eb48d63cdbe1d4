"""Days whose rows stand though their points are gone: what is left of the points does not replace them by less."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Final

import pyarrow as pa

from reconciler.errors import LakeDamaged
from reconciler.evidence.store.files import arrow_tables
from reconciler.evidence.store.lake import Lake, UnitContent
from reconciler.evidence.store.manifest import Manifest, Unit
from reconciler.evidence.store.unit_repair import BEGAN
from reconciler.usage.tables import Table

POINTS: Final = "points"
BEFORE: Final = "points_before"
_BEGINNINGS: Final = {POINTS: "points_began", BEFORE: "points_before_began"}

LEFT_FOR: Final = "left_for"
"""What a day was not made from: as long as there is no more, no run has to try again."""

SENTENCE: Final = (
    "left as it was: points that it was made from, its own or those of the day before, have expired or were damaged,"
    " and those that are there now come to less"
)


def beginnings(points: Manifest | None, before: Manifest | None) -> dict[str, str]:
    """Which beginnings of units of points a day goes back to, as inputs of its manifests."""
    manifests_by_name = {_BEGINNINGS[POINTS]: points, _BEGINNINGS[BEFORE]: before}
    return {
        name: manifest.inputs[BEGAN]
        for name, manifest in manifests_by_name.items()
        if manifest and BEGAN in manifest.inputs
    }


def has_lost(made_from: Mapping[str, str], expected_inputs: Mapping[str, str]) -> bool:
    """Whether rows were made from points that are gone.

    A unit of points only grows, unless it expires or is given up; what is there afterwards has another beginning.

    Args:
        made_from: Inputs of the rows that stand.
        expected_inputs: What they would be made from now.
    """
    return any(
        made_from.get(name)
        and (
            not expected_inputs[name] or made_from.get(began, "") != expected_inputs.get(began, "")
        )
        for name, began in _BEGINNINGS.items()
    )


def is_left(made_from: Mapping[str, str], expected_inputs: Mapping[str, str]) -> bool:
    """Whether a day was left as it was for just these inputs."""
    return made_from.get(LEFT_FOR) == _name(expected_inputs)


def retain_rows(after: Manifest, expected_inputs: Mapping[str, str]) -> UnitContent:
    """The rows that stand, and that they were left."""
    return UnitContent(
        files=after.files,
        counts=after.counts,
        inputs={**after.inputs, LEFT_FOR: _name(expected_inputs)},
        partial=(*(sentence for sentence in after.partial if sentence != SENTENCE), SENTENCE),
    )


def _name(inputs: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(dict(inputs), sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class _SeriesExtent:
    """How much there is of one series of a day."""

    count: int
    first: int
    last: int
    covered_ms: int

    def has(self, reference: "_SeriesExtent") -> bool:
        return (
            self.count >= reference.count
            and self.covered_ms >= reference.covered_ms
            and self.first <= reference.first
            and self.last >= reference.last
        )


def would_lose(
    lake: Lake, cluster_id: str, day: date, rows_by_table: Mapping[Table, pa.Table]
) -> bool:
    """Whether any series that stands in the lake has fewer samples, covers less time, begins later or ends earlier in new rows.

    Args:
        lake: Where rows stand. Those that cannot be read are no reason to keep them.
        cluster_id: Of which cluster.
        day: Of which day.
        rows_by_table: The new rows, by table.

    Raises:
        LakeError: The lake cannot be read.
    """
    return any(
        _lacks(lake, Unit(table=table, cluster_id=cluster_id, day=day), rows)
        for table, rows in rows_by_table.items()
    )


def _lacks(lake: Lake, unit: Unit, rows: pa.Table) -> bool:
    stands = lake.manifest(unit)
    if stands is None or not stands.rows:
        return False
    names = [*unit.table.key, "dt_ms"]
    try:
        old = _series(unit.table, lake.read([stands], names, table=unit.table))
    except LakeDamaged:
        return False
    new = _series(unit.table, arrow_tables.conformed(unit.table, rows).select(names))
    return any(name not in new or not new[name].has(extent) for name, extent in old.items())


def _series(table: Table, rows: pa.Table) -> dict[tuple[str, ...], _SeriesExtent]:
    names = [key_name for key_name in table.key if key_name != "ts_ms"]
    grouped = rows.group_by(names).aggregate(
        [("ts_ms", "count"), ("ts_ms", "min"), ("ts_ms", "max"), ("dt_ms", "sum")]
    )
    keys = zip(*(grouped.column(column_name).to_pylist() for column_name in names), strict=True)
    sums = ("ts_ms_count", "ts_ms_min", "ts_ms_max", "dt_ms_sum")
    values = zip(*(grouped.column(column_name).to_pylist() for column_name in sums), strict=True)
    return {key: _SeriesExtent(*value) for key, value in zip(keys, values, strict=True)}
