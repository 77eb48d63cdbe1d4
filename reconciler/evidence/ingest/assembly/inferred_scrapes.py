"""When instances without `up` answered: their points, gathered into scrapes, because each may have a time of its own."""

from collections.abc import Iterable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from reconciler.evidence.ingest.assembly import row_codes
from reconciler.usage.samples import LEAST_STEP_MS

_PARTS: Final = 20
"""A scrape ends a twentieth before the next point of the same series is due."""


def reach(series: pa.Array, times: pa.Array, step_ms: int) -> int:
    """How long after the first point of a scrape others may belong to it.

    Half a step, or the time within which two scrapes would overlap; but less than the usual distance of two points of
    one series, so that these stay apart.

    Args:
        series: Which series each point is of.
        times: Milliseconds.
        step_ms: Usual distance of two scrapes.
    """
    longest_reach_ms = max(step_ms // 2, LEAST_STEP_MS)
    table = pa.table({"series": series, "ts": times})
    table = table.sort_by([("series", "ascending"), ("ts", "ascending")]).combine_chunks()
    which, ts = row_codes.combine_column(table["series"]), row_codes.combine_column(table["ts"])
    passed = pc.subtract(ts, row_codes.shifted(ts)).filter(
        row_codes.sure(pc.equal(which, row_codes.shifted(which)))
    )
    if not len(passed):
        return longest_reach_ms
    usual = int(pc.quantile(passed, 0.5, interpolation="lower")[0].as_py())
    return min(longest_reach_ms, usual - max(1, usual // _PARTS))


def gathered(times: Iterable[int], reach_ms: int) -> dict[int, int]:
    """The scrape of each time: the first of those that lie within reach of it."""
    scrape_by_time: dict[int, int] = {}
    first: int | None = None
    for ts in sorted(times):
        if first is None or ts - first > reach_ms:
            first = ts
        scrape_by_time[ts] = first
    return scrape_by_time
