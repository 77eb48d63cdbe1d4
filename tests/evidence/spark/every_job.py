"""Every job of the table, in one session; a main file for all kinds of clusters.

`python -m tests.evidence.spark.every_job LAKE STATES OUTPUT JOBS [REMOTE]`, or as the main file of spark-submit: it
imports nothing of the tests. STATES is a folder with the state after a change for each cluster that is simulated,
JOBS their names with commas.
"""

import dataclasses
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from reconciler.codecs.row_values import row_document
from reconciler.evidence.spark.jobs import (
    capacity,
    recommend,
    rollup,
    simulate,
    usage,
)
from reconciler.evidence.spark.runtime import session
from reconciler.evidence.spark.runtime.session_settings import SessionSettings
from reconciler.evidence.spark.tables import bounded_rows
from reconciler.evidence.spark.tables.time_window import ReportWindow
from reconciler.evidence.spark.usage import candidate_plans
from reconciler.evidence.store.files.object_store import opened
from reconciler.evidence.store.lake import Lake
from reconciler.usage.capacity import CapacityOfCluster

FROM, TO = 1_793_491_200_000, 1_793_577_600_000
SPAN = {"from_ms": FROM, "to_ms": TO}
FIRST_MS, DAY_MS = 1_699_920_000_000, 86_400_000


def silent(phase: str, completed: int, total: int) -> None:
    """Report no progress."""


def simulated(spark: SparkSession, lake: Lake, states: Path) -> object:
    """Simulate the changes to the states in a folder."""
    work = candidate_plans.SimulationRequest(
        candidates=candidate_plans.read([], sorted(states.iterdir())),
        from_ms=FIRST_MS,
        to_ms=FIRST_MS + 2 * DAY_MS,
        source=lake.store.redacted_address,
    )
    return simulate.simulated(spark, lake, work, silent)


CAPACITY = ReportWindow(
    **SPAN, capacity=(CapacityOfCluster(cluster_id="c1", ingress=10**6, egress=10**6),)
)
WINDOW = recommend.RecommendationRequest(clusters=("c1",), **SPAN)
JOBS: dict[str, Callable[[SparkSession, Lake, Path], object]] = {
    "rollup": lambda spark, lake, _: rollup.run(spark, lake, rollup.RollupSettings(), silent),
    "usage": lambda spark, lake, _: usage.run(spark, lake, ReportWindow(**SPAN), silent),
    "capacity": lambda spark, lake, _: capacity.run(spark, lake, CAPACITY, silent),
    "recommend": lambda spark, lake, _: recommend.advised(spark, lake, WINDOW, silent).report,
    "simulate": simulated,
}


class Clock:
    """The lake's time, the same in every place."""

    def now(self) -> float:
        """Noon of the next day."""
        return TO / 1000 + 43_200


def package_of_worker(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The file from which a worker imports `reconciler`, and one delay by its kernel, once for each partition."""
    import reconciler.usage.kernel.throttling  # noqa: PLC0415 - in the worker, which received the package

    for _ in batches:
        delay = reconciler.usage.kernel.throttling.delay_ms(12345, 7)
        yield pa.RecordBatch.from_pydict(
            {"path": [reconciler.__file__], "delay": [delay]},
            schema=pa.schema([("path", pa.string()), ("delay", pa.int32())]),
        )


def run_all(
    spark: SparkSession, folder: str, states: Path, jobs: Iterable[str] = JOBS
) -> dict[str, object]:
    """The result of each job by its name, and under `workers` the imports of Python workers."""
    lake = Lake(opened(folder), clock=Clock(), run_id="every")
    results: dict[str, object] = {}
    for name in jobs:
        began = time.monotonic()
        result = JOBS[name](spark, lake, states)
        assert dataclasses.is_dataclass(result)
        results[name] = row_document(result)
        sys.stderr.write(f"{name}: {time.monotonic() - began:.1f} s\n")
    workers = spark.range(0, 2, 1, 2).mapInArrow(package_of_worker, "path string, delay int")
    results["workers"] = [row.asDict() for row in bounded_rows.rows(workers, 10, "rows")]
    return results


def main(words: list[str]) -> None:
    folder, states, output, jobs, *remote = words
    with session.opened(SessionSettings(remote=remote[0] if remote else None)) as spark:
        results = run_all(spark, folder, Path(states), jobs.split(","))
        Path(output).write_text(json.dumps(results, default=str), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
