"""Series on their way to the kernel: runs of samples packed into one row each, so that a shuffle moves no single sample.

Files keep the samples of a day by series, so a run is a day of a series, or what a batch holds of it. Any order gives the same
series; in theirs, a shuffle moves one row for thousands of samples, and nothing is sorted but a series that is out of order.
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
"""Runs that are shorter on average are made longer: the batch is not in the order of the store."""


def packed(samples: DataFrame, names: Sequence[str]) -> DataFrame:
    """Samples as runs.

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
    """Which of the portions of so many numbers ``n`` a row belongs to."""
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
    """The series of runs, by their values of some columns; columns that are not named must not differ within a series.

    Raises:
        QuotaValueError: A sample is there twice or out of range.
    """
    runs_by_series: defaultdict[tuple[Any, ...], list[tuple[bytes, ...]]] = defaultdict(list)
    keys = zip(*(blocks.column(name).to_pylist() for name in names), strict=True)
    values = zip(*(blocks.column(name).to_pylist() for name in COLUMNS), strict=True)
    for key, run in zip(keys, values, strict=True):
        runs_by_series[key].append(run)
    return {key: runs.read(of_series) for key, of_series in runs_by_series.items()}
