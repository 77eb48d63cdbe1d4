"""Series packed for the kernel: each run of samples becomes one row, so that a shuffle moves no single samples.

Files contain the samples of a day by series, so a run is a day of a series or the part in a batch. The order of runs does
not matter; in file order a shuffle moves one row for thousands of samples, and only series out of order are sorted.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, StructField, StructType

from reconciler.usage.kernel import runs
from reconciler.usage.kernel.series import (
    CENSORED,
    COLUMNS,
    NOT_RECORDED,
    UNKNOWN,
    IntColumn,
    SampleSeries,
)

_SHORTEST: Final = 8
"""If runs are shorter on average, the batch is not in file order and is sorted first."""


def packed(samples: DataFrame, names: Sequence[str]) -> DataFrame:
    """Pack samples into runs.

    Args:
        samples: Columns of ``usage_sample``, in any order.
        names: The columns that distinguish series; none is null.

    Returns:
        The columns of ``names``, and those of :data:`~reconciler.usage.kernel.series.COLUMNS` as bytes.
    """
    code = fn.lit(UNKNOWN)
    for place, word in enumerate(CENSORED):
        code = fn.when(fn.col("censored") == str(word), fn.lit(place)).otherwise(code)
    narrow = samples.select(
        *names,
        "ts_ms",
        "dt_ms",
        "rate_units",
        fn.coalesce("throttle_ms", fn.lit(NOT_RECORDED)).cast("bigint").alias("throttle_ms"),
        code.cast("tinyint").alias("censored"),
    )
    schema = StructType(
        [
            *(narrow.schema[name] for name in names),
            *(StructField(name, BinaryType(), nullable=False) for name in COLUMNS),
        ]
    )
    return narrow.mapInArrow(_packing(tuple(names), to_arrow_schema(schema)), schema)


def portion(rows: int) -> Column:
    """Return the portion of a row: its number ``n`` divided by ``rows``, rounded down."""
    return fn.floor(fn.col("n") / fn.lit(rows)).cast("int").alias("portion")


def _packing(
    names: tuple[str, ...], schema: pa.Schema
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                yield _runs(batch, names, schema)

    return pack


def _runs(batch: pa.RecordBatch, names: tuple[str, ...], schema: pa.Schema) -> pa.RecordBatch:
    begins = _beginnings(batch, names)
    if begins.size * _SHORTEST > batch.num_rows:
        batch = batch.sort_by([(name, "ascending") for name in names])
        begins = _beginnings(batch, names)
    arrays = batch.select(names).take(pa.array(begins)).columns
    for name in COLUMNS:
        values = batch.column(name).to_numpy(zero_copy_only=False)
        values, offsets = runs.written(name, values, begins)
        buffers = [None, *(pa.array(column).buffers()[1] for column in (offsets, values))]
        arrays.append(pa.Array.from_buffers(pa.binary(), len(begins), buffers))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _beginnings(batch: pa.RecordBatch, names: tuple[str, ...]) -> IntColumn:
    columns = (batch.column(name) for name in names)
    changes = (pc.not_equal(column[1:], column[:-1]) for column in columns)
    return runs.beginnings(
        batch.num_rows, (differs.to_numpy(zero_copy_only=False) for differs in changes)
    )


def series_by(blocks: pa.Table, names: Sequence[str]) -> dict[tuple[Any, ...], SampleSeries]:
    """Return the series of runs, by the values of some columns; other columns must not differ within a series.

    Raises:
        QuotaValueError: A sample is duplicated or out of range.
    """
    runs_by_series: defaultdict[tuple[Any, ...], list[tuple[bytes, ...]]] = defaultdict(list)
    keys = zip(*(blocks.column(name).to_pylist() for name in names), strict=True)
    values = zip(*(blocks.column(name).to_pylist() for name in COLUMNS), strict=True)
    for key, run in zip(keys, values, strict=True):
        runs_by_series[key].append(run)
    return {key: runs.read(of_series) for key, of_series in runs_by_series.items()}
