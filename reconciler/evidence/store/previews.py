"""The root of previews: the last days of a cluster in the same tables, for planners with a key to that alone."""

from datetime import date, timedelta
from typing import Final

from reconciler.errors import LakeError
from reconciler.evidence.store.files.table_store import TableStore
from reconciler.evidence.store.lake import Lake, LakeReader
from reconciler.evidence.store.stored_days import Unit
from reconciler.usage.tables import (
    BROKER_SAMPLE,
    QUOTA_ENTRY,
    SNAPSHOT,
    TARGET_UP,
    USAGE_SAMPLE,
    Table,
)

DAYS: Final = 14
"""Number of days in the root of previews, the last one with samples included."""

TABLES: Final[tuple[Table, ...]] = (QUOTA_ENTRY, SNAPSHOT, TARGET_UP, BROKER_SAMPLE, USAGE_SAMPLE)
"""The tables that a preview reads. Samples are last: a killed run leaves no day of samples without its limits."""


def publish(lake: Lake, cluster_id: str, to: TableStore) -> tuple[date, date]:
    """Copy the objects of the last days that differ. Nothing is deleted: the root may be a lake, and readers need no deletion.

    The last snapshot of limits before these days is copied, too, because it was in force when they began.

    Returns:
        The first and the last day.

    Raises:
        LakeError: The lake has no samples of the cluster, or a store fails.
    """
    recorded = lake.units(USAGE_SAMPLE, [cluster_id])
    if not recorded:
        raise LakeError(f"the lake has no samples of {cluster_id}, so there is nothing to preview")
    last = recorded[-1].day
    first = last - timedelta(days=DAYS - 1)
    for table in TABLES:
        begin = first
        if table in {QUOTA_ENTRY, SNAPSHOT}:
            earlier = lake.units(table, [cluster_id], to_day=first - timedelta(days=1))
            begin = earlier[-1].day if earlier else first
        for unit in lake.units(table, [cluster_id], begin, last):
            _copy(lake, unit, to)
    return first, last


def _copy(lake: Lake, unit: Unit, to: TableStore) -> None:
    if LakeReader(to).facts(unit) != lake.facts(unit):  # they name the run and the time
        to.put(unit.path, lake.store.content(unit.path), after=to.version(unit.path))
