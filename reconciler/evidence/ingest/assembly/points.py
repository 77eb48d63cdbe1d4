"""Points of one cluster in memory: decoded series, and one row per point."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from reconciler.evidence.ingest.assembly import row_codes
from reconciler.evidence.ingest.dialects.cluster_sources import SampleOrigin
from reconciler.usage.samples import DAY_MS
from reconciler.usage.tables import Measure

_SCHEMA: Final = pa.schema([("series", pa.int64()), ("ts_ms", pa.int64()), ("value", pa.float64())])


class SeriesNames(NamedTuple):
    """What a series measures, with decoded names: one for all origins of a broker."""

    measure: Measure
    quota_type: str = ""  # "" for metrics of a broker
    user: str = ""
    client_id: str = ""
    ip: str = ""


class PointSeries(NamedTuple):
    """A series of points."""

    names: SeriesNames
    origin: SampleOrigin


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """Points of one cluster."""

    series: tuple[PointSeries, ...] = ()  # the series that have points, sorted
    # Columns `series` (an index), `ts_ms` and `value`; no series has two points of one time.
    rows: pa.Table

    @classmethod
    def of(cls, series: Iterable[PointSeries], rows: pa.Table) -> "Points":
        """Return points of which series may be in any order or without points."""
        present = row_codes.combine_column(pc.unique(rows["series"]))
        every = tuple(series)
        order = sorted(present.to_pylist(), key=every.__getitem__)
        index = pc.index_in(rows["series"], value_set=row_codes.integers(order))
        return cls(
            series=tuple(every[number] for number in order),
            rows=rows.set_column(0, "series", index.cast(pa.int64())).cast(_SCHEMA),
        )

    @classmethod
    def none(cls) -> "Points":
        """Return no points."""
        return cls(rows=_SCHEMA.empty_table())

    def __len__(self) -> int:
        """Return the number of points."""
        return int(self.rows.num_rows)

    def between(self, begin_ms: int, end_ms: int) -> "Points":
        """Return the points of a time range, the end excluded."""
        ts = self.rows["ts_ms"]
        is_within = pc.and_(pc.greater_equal(ts, begin_ms), pc.less(ts, end_ms))
        return Points.of(self.series, self.rows.filter(is_within))

    def followed_by(self, later: "Points") -> "Points":
        """Return these points and later ones."""
        shifted = pc.add(later.rows["series"], len(self.series))
        rows = pa.concat_tables([self.rows, later.rows.set_column(0, "series", shifted)])
        every = (*self.series, *later.series)
        first = {series: at for at, series in reversed(tuple(enumerate(every)))}
        index = row_codes.integers([first[series] for series in every])
        return Points.of(every, rows.set_column(0, "series", index.take(rows["series"])))

    def days(self) -> list[int]:
        """Return the days with points, since the epoch."""
        return sorted(pc.unique(pc.divide(self.rows["ts_ms"], DAY_MS)).to_pylist())

    def digest(self) -> str:
        """Return a short digest of series and points."""
        content = hashlib.sha256(repr(self.series).encode())
        for column in self.rows.columns:
            content.update(row_codes.combine_column(column).to_numpy(zero_copy_only=False))
        return content.hexdigest()[:16]
