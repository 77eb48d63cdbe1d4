"""Runs of samples through a shuffle: the kernel gets the series of the files, for any order and file boundaries."""

import random
from pathlib import Path

import pyarrow as pa
import pytest
from obstore.store import LocalStore
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from reconciler.evidence.spark.usage import series_blocks
from reconciler.evidence.spark.usage.series_blocks import SampleFiles
from reconciler.evidence.store import sample_runs
from reconciler.evidence.store.files import address
from reconciler.evidence.store.files.local_files import FolderReader
from reconciler.evidence.store.files.object_store import FileStore
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.sample_runs import SERIES, RunQuery
from reconciler.usage.samples import DAY_MS, QuotaType
from reconciler.usage.tables import USAGE_SAMPLE
from reconciler.usage.tags import bucket_of
from tests.evidence.spark import cases, lakes
from tests.fakes.clock import FakeClock
from tests.usage.reference import Sample, samples_of

pytestmark = pytest.mark.integration

NAMES = ("cluster_id", "quota_type", "broker_id")


class Bucket(FileStore):
    """A folder that is an object store for everything but Spark: workers have no client of it."""

    @property
    def folder(self) -> None:
        return None


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two clusters with two days of samples each."""
    folder = tmp_path_factory.mktemp("lake")
    lake = lakes.lake(folder)
    for cluster in ("c1", "c2"):
        for number in range(2):
            rows = lakes.samples(cluster, lakes.day(number), series=8)
            _ = lakes.commit(lake, cluster, lakes.day(number), rows)
    return folder


FROM = (lakes.day(0) - lakes.EPOCH).days * DAY_MS + 600_000


def _samples(spark: SparkSession, lake: Lake) -> SampleFiles:
    return SampleFiles(
        spark=spark,
        lake=lake,
        units=lake.manifests(USAGE_SAMPLE),
        from_ms=FROM,
        to_ms=FROM + DAY_MS,
    )


@pytest.mark.parametrize("most_keys", [0, 9], ids=["many", "few"])
def test_workers_and_spark_read_the_same_series_and_runs(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch, most_keys: int
) -> None:
    monkeypatch.setattr(series_blocks, "MOST_KEYS", most_keys)
    monkeypatch.setattr(sample_runs, "TASK_ROWS", 700)
    of_workers = _samples(spark, lakes.lake(folder))
    bucket = Bucket(address.parsed(str(folder)), LocalStore(folder))
    of_spark = _samples(spark, Lake(bucket, clock=FakeClock(), run_id="test"))
    every = {tuple(row) for row in of_workers.series().collect()}
    assert every == {tuple(row) for row in of_spark.series().collect()}
    assert len(every) == 16
    only = of_spark.series().where(fn.col("broker_id") == "1")
    requested = {tuple(row) for row in only.collect()}
    for series in (None, only):
        runs, blocks = (
            series_blocks.series_by(samples.runs(series).toArrow(), SERIES)
            for samples in (of_workers, of_spark)
        )
        assert blocks.keys() == (every if series is None else requested)
        assert runs.keys() == (requested if series is not None and most_keys else every)
        assert all(samples_of(runs[key]) == samples_of(blocks[key]) for key in blocks)


def test_units_without_files_have_no_runs(spark: SparkSession, tmp_path: Path) -> None:
    samples = _samples(spark, lakes.lake(tmp_path))
    assert samples.series().count() == 0
    assert samples.runs().columns == [*SERIES, *series_blocks.COLUMNS]
    assert samples.runs().count() == 0


def test_a_worker_decodes_only_its_own_task(folder: Path) -> None:
    """Every worker gets all tasks: to decode the files of a large fleet for each took longer than to read them."""
    files = [file for unit in lakes.lake(folder).manifests(USAGE_SAMPLE) for file in unit.files]
    query = RunQuery(from_ms=FROM, to_ms=FROM + DAY_MS)
    (task,) = sample_runs.tasks_of(files)
    encoded = [b"not decoded", series_blocks._SERIALIZER.dumps(task)]
    read = series_blocks._reading(FolderReader(folder), encoded, query)
    runs = list(read(iter([pa.RecordBatch.from_pydict({"id": [1]})])))
    assert runs == [run for part in task for run in query.read(FolderReader(folder), part)]
    assert runs


def _fleet() -> dict[tuple[str, str, str], list[Sample]]:
    draw = random.Random(7)
    fleet = {}
    for number in range(40):
        times = cases.moments(draw, count=draw.choice((1, 30, 400)), step=30_000, max_gap=150_000)
        samples = cases.series(draw, times=times, scale=10**9)
        if samples:
            fleet[str(number), str(QuotaType.PRODUCE), "1"] = list(samples)
    return fleet


@pytest.mark.parametrize("order", ["by series", "by time", "by chance"])
def test_series_equal_those_of_the_files_in_any_order_and_across_files(
    spark: SparkSession, tmp_path: Path, order: str
) -> None:
    fleet = _fleet()
    rows = [
        row
        for (cluster, _, broker), samples in fleet.items()
        for row in cases.sample_rows(cluster, QuotaType.PRODUCE, bucket_of("u"), broker, samples)
    ]
    frame = spark.createDataFrame(rows, cases.SAMPLE_SCHEMA)
    columns = {"by series": (*NAMES, "ts_ms"), "by time": ("ts_ms",)}.get(order)
    ordered = frame.orderBy(*columns) if columns else frame.orderBy(fn.rand(5))
    ordered.repartition(3).sortWithinPartitions(*(columns or ("rate_units",))).write.parquet(
        str(tmp_path / "samples")
    )
    read = spark.read.schema(frame.schema).parquet(str(tmp_path / "samples"))
    blocks = series_blocks.packed(read).toArrow()
    series = series_blocks.series_by(blocks, NAMES)
    assert {key: samples_of(samples) for key, samples in series.items()} == fleet
    if order == "by series":
        assert blocks.num_rows <= 4 * len(fleet)
