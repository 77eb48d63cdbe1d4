"""Rows of the table `point` in the order of its key, each key once. Doubles are counted; of different values the larger stays."""

from collections.abc import Iterable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from reconciler.evidence.ingest.drop_reasons import DropCounts, DropReason
from reconciler.evidence.store.files import arrow_tables
from reconciler.usage.tables import POINT

_NAMES: Final = tuple(name for name in POINT.key if name != "ts_ms")
_ORDER: Final = [("code", "ascending"), ("ts_ms", "ascending"), ("value", "descending")]
_MOST: Final = 2**63


def merged(tables: Iterable[pa.Table], counts: DropCounts) -> pa.Table:
    """Rows of one cluster from several readings as one table.

    Args:
        tables: With the columns of `point`; the day may be missing.
        counts: Where doubles are counted.
    """
    names = [name for name in POINT.names if name != "day"]
    nothing = arrow_tables.schema(POINT).empty_table().select(names)
    all_rows = pa.concat_tables([nothing, *(table.select(names) for table in tables)])
    all_rows = all_rows.append_column("code", _codes(all_rows))
    return finished(once(all_rows, counts))


def once(rows: pa.Table, counts: DropCounts) -> pa.Table:
    """Rows sorted by ``code`` and time, without doubles; ``code`` stands for everything else of the key."""
    rows = rows.take(pc.sort_indices(rows, sort_keys=_ORDER)).combine_chunks()
    if rows.num_rows < 2:
        return rows
    current, before = rows.slice(1), rows.slice(0, rows.num_rows - 1)
    double = pc.and_(
        pc.equal(current["code"], before["code"]), pc.equal(current["ts_ms"], before["ts_ms"])
    )
    doubles = _true(double)
    if not doubles:
        return rows
    is_same_key = pc.or_(
        pc.equal(current["value"], before["value"]),
        pc.and_(pc.is_nan(current["value"]), pc.is_nan(before["value"])),
    )
    repeated = _true(pc.and_(double, is_same_key))
    counts.add(DropReason.DUPLICATES, repeated)
    counts.add(DropReason.CONTRADICTIONS, doubles - repeated)
    keep = pa.chunked_array([[True], *pc.invert(double).chunks], pa.bool_())
    return rows.filter(keep)


def finished(rows: pa.Table) -> pa.Table:
    """Rows with their day and exactly the columns of the table."""
    day = pc.cast(rows["ts_ms"], pa.timestamp("ms", "UTC")).cast(pa.date32())
    return arrow_tables.conformed(POINT, rows.append_column("day", day).select(list(POINT.names)))


def _codes(rows: pa.Table) -> pa.Array:
    """One number per row, in the order of the names of the key: a mixed radix of the ranks of each name.

    Sorting by nine columns of text takes ten times as long.
    """
    code: pa.Array = pa.array([0], pa.int64()).take(
        pa.nulls(rows.num_rows, pa.int32()).fill_null(0)
    )
    room = 1
    for name in _NAMES:
        column = rows[name].combine_chunks().dictionary_encode()
        ranks = pc.rank(column.dictionary, sort_keys="ascending").cast(pa.int64())
        radix = len(column.dictionary) + 1
        if room * radix >= _MOST:
            code = pc.rank(code, tiebreaker="dense").cast(pa.int64())
            room = rows.num_rows + 1
        room *= radix
        code = pc.add(pc.multiply(code, radix), ranks.take(column.indices))
    return code


def _true(mask: pa.ChunkedArray) -> int:
    return int(pc.sum(mask).as_py() or 0)
