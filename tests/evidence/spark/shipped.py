"""A job that asks the core in Python workers: what it says proves where they have the package from."""

import dataclasses
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession

from reconciler.evidence.spark.runtime.job import Job
from reconciler.evidence.spark.tables import bounded_rows


@dataclasses.dataclass(frozen=True)
class Settings:
    """Nothing is asked."""


def told(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The file that `reconciler` is imported from, and one delay by the kernel, once for each partition."""
    import reconciler.usage.kernel.throttling  # noqa: PLC0415 - in the worker, which has it from us

    for _ in batches:
        yield pa.RecordBatch.from_pydict(
            {
                "path": [reconciler.__file__],
                "delay": [reconciler.usage.kernel.throttling.delay_ms(12345, 7)],
            },
            schema=pa.schema([("path", pa.string()), ("delay", pa.int32())]),
        )


def run(spark: SparkSession, lake: object, settings: Settings, progress: object) -> object:
    rows = spark.range(0, 2, 1, 2).mapInArrow(told, "path string, delay int")
    return [row.asDict() for row in bounded_rows.rows(rows, 10, "rows")]


JOB = Job(name="shipped", settings=Settings, run=run)
