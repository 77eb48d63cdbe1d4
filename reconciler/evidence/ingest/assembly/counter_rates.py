"""Counters as rates: what was counted since the last kept scrape, divided by the time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from reconciler.evidence.ingest.assembly import row_codes
from reconciler.evidence.ingest.drop_reasons import DropCounts, DropReason


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterRates:
    """Rates of counters.

    Attributes:
        series: Which counter.
        rows: At the end of which interval.
        values: What it counted per second.
        grown: What it counted in all.
        last: The last reading of each counter, ``(milliseconds, value)``: the next day begins there.
    """

    series: pa.Int64Array
    rows: pa.Int64Array
    values: pa.DoubleArray
    grown: pa.DoubleArray
    last: Mapping[int, tuple[int, float]]


def rates(
    series: pa.Array,
    rows: pa.Array,
    values: pa.Array,
    *,
    times: Sequence[int],
    max_gap_ms: int,
    before: Mapping[int, tuple[int, float]],
    tally: DropCounts,
) -> CounterRates:
    """The rates of counters, one per reading but the first.

    A counter that is lower than before began again: what it shows was counted since then, so the rate is at least
    that. A reading that is not a number gives nothing and is passed over; so does an interval above ``max_gap_ms``, in
    which much may have happened at any time.

    Args:
        series: Which counter.
        rows: The moment of each reading, by its place in ``times``.
        values: What was read.
        times: Milliseconds of all moments; ascending within a series.
        max_gap_ms: The longest interval.
        before: The last reading of the day before.
        tally: Where first readings, resets and gaps are counted.
    """
    real = pc.is_finite(values)
    table = pa.table({"series": series, "row": rows, "value": values}).filter(real)
    table = table.sort_by([("series", "ascending"), ("row", "ascending")])
    which, row, value = (
        row_codes.combine_column(table.column(name)) for name in ("series", "row", "value")
    )
    if not len(which):
        return CounterRates(series=which, rows=row, values=value, grown=value, last={})
    ts = row_codes.integers(times).take(row)
    begins = pc.invert(row_codes.sure(pc.equal(which, row_codes.shifted(which))))
    ends = pa.concat_arrays([begins.slice(1), pa.array([True])])
    last = {
        counter: (at, read)
        for counter, at, read in zip(
            *(column.filter(ends).to_pylist() for column in (which, ts, value)), strict=True
        )
    }
    readings_before = [
        before.get(counter, (None, None)) for counter in which.filter(begins).to_pylist()
    ]
    old_ts = pc.replace_with_mask(
        row_codes.shifted(ts), begins, pa.array([at for at, _ in readings_before], pa.int64())
    )
    old = pc.replace_with_mask(
        row_codes.shifted(value),
        begins,
        pa.array([read for _, read in readings_before], pa.float64()),
    )
    passed = pc.subtract(ts, old_ts)
    far = row_codes.sure(pc.greater(passed, max_gap_ms))
    reset = row_codes.sure(pc.less(value, old))
    grown = pc.if_else(reset, value, pc.subtract(value, old))
    usable = pc.and_(pc.is_valid(passed), pc.invert(far))
    tally.add(DropReason.COUNTER_FIRST, row_codes.count(pc.is_null(passed)))
    tally.add(DropReason.COUNTER_GAP, row_codes.count(far))
    tally.add(DropReason.COUNTER_RESET, row_codes.count(pc.and_(reset, usable)))
    return CounterRates(
        series=which.filter(usable),
        rows=row.filter(usable),
        values=pc.divide(pc.multiply(grown, 1000.0), passed.cast(pa.float64())).filter(usable),
        grown=grown.filter(usable),
        last=last,
    )
