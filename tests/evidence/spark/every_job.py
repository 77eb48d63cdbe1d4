"""Every job of the table that needs no manifests, one after the other in one session; a main file for all places.

`python -m tests.evidence.spark.every_job LAKE STATES OUTPUT JOBS [REMOTE]`, or as the main file of spark-submit: it imports nothing of the tests.
STATES is a folder with the state after a change for each cluster that is simulated, JOBS their names with commas.
"""

import json
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from reconciler.evidence.spark import command_line
from reconciler.evidence.spark.runtime import job_runner, session
from reconciler.evidence.spark.runtime.job import silent
from reconciler.evidence.spark.tables import bounded_rows
from reconciler.evidence.store.files.object_store import opened
from reconciler.evidence.store.lake import Lake

FROM, TO = 1_793_491_200_000, 1_793_577_600_000
SPAN = ["--from-ms", str(FROM), "--to-ms", str(TO)]
COMMANDS = {
    "rollup": [],
    "usage": SPAN,
    "capacity": [*SPAN, "--capacity", "c1=1000000:1000000"],
    "resolve": ["--to-ms", str(TO)],
    "history": SPAN,
    "recommend": ["--cluster", "c1", "--to-day", "2026-11-01", "--days", "1"],
    "simulate": ["--to-day", "2023-11-15", "--days", "2"],
}


class Clock:
    """The lake's time, the same in every place."""

    def now(self) -> float:
        """Noon of the next day."""
        return TO / 1000 + 43_200


def package_of_worker(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The file that a Python worker imports `reconciler` from, and one delay by its kernel, once for each partition."""
    import reconciler.usage.kernel.throttling  # noqa: PLC0415 - in the worker, which has the package from us

    for _ in batches:
        delay = reconciler.usage.kernel.throttling.delay_ms(12345, 7)
        yield pa.RecordBatch.from_pydict(
            {"path": [reconciler.__file__], "delay": [delay]},
            schema=pa.schema([("path", pa.string()), ("delay", pa.int32())]),
        )


def run_all(
    spark: SparkSession, folder: str, states: Path, jobs: Iterable[str] = COMMANDS
) -> dict[str, object]:
    """The result of each job by its name, and under `workers` what Python workers import."""
    lake = Lake(opened(folder), clock=Clock(), run_id="every")
    after = [word for path in sorted(states.iterdir()) for word in ("--after", str(path))]
    results: dict[str, object] = {}
    for name in jobs:
        more = after if name == "simulate" else []
        parsed = command_line.parsed([name, "--lake", folder, *COMMANDS[name], *more])
        began = time.monotonic()
        result = parsed.job.run(spark, lake, parsed.settings, silent)
        results[name] = job_runner.document(result)
        sys.stderr.write(f"{name}: {time.monotonic() - began:.1f} s\n")
    workers = spark.range(0, 2, 1, 2).mapInArrow(package_of_worker, "path string, delay int")
    results["workers"] = [row.asDict() for row in bounded_rows.rows(workers, 10, "rows")]
    return results


def main(words: list[str]) -> None:
    folder, states, output, jobs, *remote = words
    with session.opened(session.SessionSettings(remote=remote[0] if remote else None)) as spark:
        results = run_all(spark, folder, Path(states), jobs.split(","))
        Path(output).write_text(json.dumps(results, default=str), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
