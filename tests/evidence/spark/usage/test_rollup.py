"""Rollups on Spark equal those of the core; increments equal a rebuild; killed or late runs change nothing."""

import itertools
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from reconciler.errors import LakeError
from reconciler.evidence.spark.jobs import rollup as job
from reconciler.evidence.spark.runtime import job_runner
from reconciler.evidence.spark.tables import reader, unit_writer
from reconciler.evidence.spark.usage import rollup
from reconciler.evidence.store.files import arrow_tables
from reconciler.evidence.store.lake import Lake, UnitContent
from reconciler.evidence.store.manifest import Manifest, Unit
from reconciler.usage.tables import USAGE_5M, USAGE_HIST_D, USAGE_SAMPLE
from tests.evidence.spark import lakes, plans
from tests.fakes.progress import silent

pytestmark = pytest.mark.integration

CLUSTERS = ("lkc 1/ü", "b")


def filled(folder: Path, days: int = 3) -> tuple[Lake, list[lakes.Row]]:
    lake = lakes.lake(folder)
    rows: list[lakes.Row] = []
    for cluster, number in itertools.product(CLUSTERS, range(days)):
        day_rows = lakes.samples(cluster, lakes.day(number))
        lakes.commit(lake, cluster, lakes.day(number), day_rows)
        rows += day_rows
    return lake, rows


def run(spark: SparkSession, lake: Lake, **settings: object) -> dict[str, job.TableRollup]:
    done = job.run(spark, lake, job.RollupSettings(**settings), silent)
    return {result.table: result for result in done.tables}


def assert_is(lake: Lake, rows: list[lakes.Row]) -> None:
    expected = lakes.expected(rows)
    for table in (USAGE_5M, USAGE_HIST_D):
        assert lakes.rows_of(lake, table) == expected[table.name], table.name


def test_rollups_equal_those_of_the_core_and_only_changed_days_are_written_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake, rows = filled(tmp_path)
    first = run(spark, lake)
    assert {name: (result.units, result.unchanged) for name, result in first.items()} == {
        "usage_5m": (6, 0),
        "usage_hist_d": (6, 0),
    }
    assert_is(lake, rows)
    again = run(spark, lake)
    assert all((result.units, result.unchanged) == (0, 6) for result in again.values())
    # A late sample of the second day, and a cluster's day that lost its last sample.
    late = lakes.samples("b", lakes.day(1), seed=2)
    lakes.commit(lake, "b", lakes.day(1), late)
    lakes.commit(lake, CLUSTERS[0], lakes.day(2), [])
    changed = run(spark, lake)
    assert all((result.units, result.unchanged) == (2, 4) for result in changed.values())
    rows = [
        row
        for row in rows
        if (row["cluster_id"], row["day"]) not in {("b", lakes.day(1)), (CLUSTERS[0], lakes.day(2))}
    ] + late
    assert_is(lake, rows)
    empty = lake.manifest(Unit(table=USAGE_5M, cluster_id=CLUSTERS[0], day=lakes.day(2)))
    assert empty is not None
    assert (empty.generation, empty.files) == (2, ())


def test_a_rebuild_equals_the_incremental_result(spark: SparkSession, tmp_path: Path) -> None:
    lake, rows = filled(tmp_path / "grown", days=1)
    run(spark, lake)
    for number in (1, 2):
        day_rows = lakes.samples("b", lakes.day(number))
        rows += day_rows
        lakes.commit(lake, "b", lakes.day(number), day_rows)
        run(spark, lake, from_day=lakes.day(number), cluster=("b",))
    assert_is(lake, rows)
    rebuilt = run(spark, lake, rebuild=True)
    assert all((result.units, result.unchanged) == (4, 0) for result in rebuilt.values())
    assert_is(lake, rows)


def test_one_new_day_of_thirty_reads_at_most_two_days_of_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = lakes.lake(tmp_path)
    for number in range(30):
        lakes.commit(lake, "b", lakes.day(number), lakes.samples("b", lakes.day(number), each=20))
    run(spark, lake, to_day=lakes.day(28))
    with plans.rows_read(spark) as count:
        done = run(spark, lake)
        read = count()
    assert all((result.units, result.unchanged) == (1, 29) for result in done.values())
    each = lake.manifests(USAGE_SAMPLE)[0].rows
    assert each <= read <= 2 * each


class Dies(Exception):
    """A substitute for `kill -9` at a chosen step."""


class Mortal(Lake):
    """Ends the process at a given commit."""

    def __init__(self, lake: Lake, *, at: int) -> None:
        super().__init__(lake.store, clock=lakes.FakeClock(), run_id="mortal")
        self.commits = at

    def commit(self, *args: object) -> Manifest:
        if self.commits == 0:
            raise Dies
        self.commits -= 1
        return super().commit(*args)


@pytest.mark.parametrize("at", [0, 3])
def test_a_job_that_dies_leaves_each_unit_unchanged_or_complete(
    spark: SparkSession, tmp_path: Path, at: int
) -> None:
    lake, rows = filled(tmp_path)
    run(spark, lake)
    for cluster, number in itertools.product(CLUSTERS, range(3)):
        lakes.commit(
            lake, cluster, lakes.day(number), lakes.samples(cluster, lakes.day(number), seed=9)
        )
    with pytest.raises(Dies):
        run(spark, Mortal(lake, at=at))
    old = lakes.expected(rows)["usage_5m"]
    fresh = [
        row
        for cluster, number in itertools.product(CLUSTERS, range(3))
        for row in lakes.samples(cluster, lakes.day(number), seed=9)
    ]
    new = lakes.expected(fresh)["usage_5m"]
    manifests = lake.manifests(USAGE_5M)
    assert sum(manifest.generation == 2 for manifest in manifests) == at
    for manifest in manifests:
        expected = new if manifest.generation == 2 else old
        unit = [
            row
            for row in expected
            if (row["cluster_id"], row["day"]) == (manifest.unit.cluster_id, manifest.unit.day)
        ]
        assert lake.read([manifest]).to_pylist() == unit
    run(spark, lake)
    assert_is(lake, fresh)


class Overtaken(Lake):
    """Another writer commits the unit first, the first times."""

    def __init__(self, lake: Lake, *, times: int) -> None:
        super().__init__(
            lake.store, clock=lakes.FakeClock(), run_id="overtaken", pause=lambda _: None
        )
        self.times = times

    def commit(self, unit: Unit, content: UnitContent, after: Manifest | None) -> Manifest:
        if self.times:
            self.times -= 1
            super().commit(unit, UnitContent(inputs={"usage_sample": "other"}), after)
        return super().commit(unit, content, after)


def test_a_writer_that_loses_a_race_replaces_the_rows_of_the_other(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake, rows = filled(tmp_path, days=1)
    done = run(spark, Overtaken(lake, times=2))
    assert (done["usage_5m"].units, done["usage_5m"].again) == (2, 1)  # of one unit, twice
    assert_is(lake, rows)
    done = run(spark, lake)
    assert (done["usage_5m"].units, done["usage_5m"].unchanged) == (0, 2)


def test_an_empty_lake_gives_empty_frames_and_no_work(spark: SparkSession, tmp_path: Path) -> None:
    lake = lakes.lake(tmp_path)
    frame = reader.frame(spark, lake, USAGE_SAMPLE)
    assert (frame.columns, frame.count()) == (list(USAGE_SAMPLE.names), 0)
    assert rollup.usage_5m(frame).count() == 0
    assert all(result.units == 0 for result in run(spark, lake).values())


def test_rows_are_read_by_cluster_and_day_and_from_the_named_files_only(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake, rows = filled(tmp_path)
    stray = next((tmp_path / "usage_sample").rglob("*.parquet"))
    shutil.copy(stray, stray.with_name("stray.parquet"))
    frame = reader.frame(
        spark, lake, USAGE_SAMPLE, ["b"], from_day=lakes.day(1), to_day=lakes.day(1)
    )
    expected = [row for row in rows if (row["cluster_id"], row["day"]) == ("b", lakes.day(1))]
    assert sorted(row.asDict()["ts_ms"] for row in frame.collect()) == sorted(
        row["ts_ms"] for row in expected
    )
    assert plans.files_read(frame) == {
        lake.store.uri(file.path)
        for manifest in lake.manifests(USAGE_SAMPLE, ["b"], lakes.day(1), lakes.day(1))
        for file in manifest.files
    }


def test_a_nullable_column_that_was_added_later_is_null_in_older_files(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = lakes.lake(tmp_path)
    rows = lakes.samples("b", lakes.day(0))
    newer = lakes.commit(lake, "b", lakes.day(0), rows)
    unit = Unit(table=USAGE_SAMPLE, cluster_id="b", day=lakes.day(1))
    older = [{**row, "day": lakes.day(1), "ts_ms": row["ts_ms"] + lakes.DAY_MS} for row in rows]
    table = pa.Table.from_pylist(older, schema=arrow_tables.schema(USAGE_SAMPLE)).drop_columns(
        "throttle_ms"
    )
    (tmp_path / "older").mkdir()
    pq.write_table(table, tmp_path / "older" / "x.parquet")
    lake.commit(unit, UnitContent(files=(lake.measure_file("older/x.parquet"),)), None)
    frame = reader.frame(spark, lake, USAGE_SAMPLE)
    assert tuple(frame.columns) == USAGE_SAMPLE.names
    assert frame.count() == 2 * newer.rows
    assert frame.where(f"day = DATE'{lakes.day(1)}' AND throttle_ms IS NULL").count() == len(older)
    run(spark, lake)
    assert_is(lake, [*rows, *({**row, "throttle_ms": None} for row in older)])


def test_a_truncated_file_is_an_error_and_not_fewer_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake, _ = filled(tmp_path, days=1)
    victim = next((tmp_path / "usage_sample").rglob("*.parquet"))
    victim.write_bytes(victim.read_bytes()[:-100])
    with pytest.raises((PySparkException, Py4JError)) as caught:
        reader.frame(spark, lake, USAGE_SAMPLE).count()
    message = job_runner.spark_error(caught.value, "rollup").message
    assert message.startswith("rollup: [FAILED_READ_FILE")
    assert str(victim) in message
    assert "is not a Parquet file" in message


def test_rows_of_an_unrequested_unit_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    lake, _ = filled(tmp_path, days=2)
    frame = rollup.usage_5m(reader.frame(spark, lake, USAGE_SAMPLE))
    unit = Unit(table=USAGE_5M, cluster_id="b", day=lakes.day(0))
    with pytest.raises(LakeError, match="where none belong"):
        unit_writer.commit_frame(lake, frame, USAGE_5M, {unit: UnitContent()}, silent)
    assert lake.manifests(USAGE_5M) == ()


def test_rollups_use_native_operators_with_one_exchange_and_read_only_the_needed_columns(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake, _ = filled(tmp_path, days=1)
    samples = reader.frame(spark, lake, USAGE_SAMPLE)
    for frame in (rollup.usage_5m(samples), rollup.usage_hist_d(samples)):
        plan = plans.of(frame)
        plan.assert_native()
        assert plan.count("Exchange") == 1
    assert "throttle_ms" not in plans.of(rollup.usage_hist_d(samples)).columns_read()
