"""Progress of jobs: each phase once, then at intervals, with Spark's tasks if they are available."""

import io

import pytest
from pyspark.sql import SparkSession

from reconciler.evidence.spark.runtime import job_runner
from tests.fakes.clock import FakeClock


def test_the_start_and_the_end_of_a_phase_are_reported_and_little_between() -> None:
    clock, stream = FakeClock(), io.StringIO()
    lines = job_runner.ProgressWriter(clock, stream)
    lines("starting Spark", 0, 0)
    for done in range(4):
        clock.advance(2)
        lines("writing x", done, 4)
    lines("writing x", 4, 4)
    assert stream.getvalue().splitlines() == [
        "[    0 s] starting Spark",
        "[    2 s] writing x: 0 of 4",
        "[    8 s] writing x: 3 of 4",
        "[    8 s] writing x: 4 of 4",
    ]


def test_tasks_are_reported_only_after_a_time_without_other_progress() -> None:
    clock, stream = FakeClock(), io.StringIO()
    lines = job_runner.ProgressWriter(clock, stream)
    lines("working hard", 0, 0)
    clock.advance(4)
    lines.tasks(1, 8)
    clock.advance(1)
    lines.tasks(0, 0)
    lines.tasks(2, 8)
    lines.tasks(3, 8)
    assert stream.getvalue().splitlines()[1:] == ["[    5 s] working hard: 2 of 8 tasks of Spark"]


@pytest.mark.integration
def test_tasks_of_running_stages_are_counted_while_a_block_runs(spark: SparkSession) -> None:
    clock, stream = FakeClock(), io.StringIO()
    lines = job_runner.ProgressWriter(clock, stream)
    lines("counting", 0, 0)
    clock.advance(60)
    progress_lines: list[str] = []
    with job_runner.watched(spark, lines, every=0.02):
        while not progress_lines and clock.monotonic() < 1_200:
            spark.range(0, 50_000_000, 1, 4).selectExpr("sum(hash(id))").collect()
            progress_lines = stream.getvalue().splitlines()[1:]
            clock.advance(1)
    assert any(
        "of 4 tasks of Spark" in line or "of 1 tasks of Spark" in line for line in progress_lines
    )
