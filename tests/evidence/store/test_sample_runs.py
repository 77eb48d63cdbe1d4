"""Runs of samples that workers read from files equal the rows of the lake, for any window, task and set of series."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.errors import LakeDamaged, LakeError
from reconciler.evidence.store import sample_columns, sample_runs
from reconciler.evidence.store.files import parquet_files
from reconciler.evidence.store.files.local_files import FolderReader
from reconciler.evidence.store.lake import Lake, UnitContent
from reconciler.evidence.store.manifest import UnitFile
from reconciler.evidence.store.sample_runs import SERIES, FilePart, RunQuery
from reconciler.usage.kernel import runs
from reconciler.usage.kernel.series import COLUMNS
from reconciler.usage.tables import USAGE_SAMPLE
from tests.evidence.store import rows
from tests.hypothesis_profiles import count_examples
from tests.usage.reference import Sample, samples_of

USERS = tuple(f"user {number}" for number in range(5))
EACH = 40
Series = dict[tuple[str, ...], list[Sample]]


class RangeWatch(FolderReader):
    """A folder that counts the bytes that are read."""

    size = 0

    def get_range(self, path: str, start: int, end: int) -> bytes:
        self.size += end - start
        return super().get_range(path, start, end)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Three days of five users on two brokers, in row groups that end inside of series."""
    lake = rows.lake_in(tmp_path_factory.mktemp("lake"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet_files, "ROW_GROUP", 64)
        for number in range(3):
            rates = [10 * number + at for at in range(EACH)]
            table = rows.usage(number, users=USERS, brokers=("1", "2"), rates=rates)
            odd = pc.equal(pc.bit_wise_and(table.column("rate_units"), 1), 1)
            table = table.set_column(
                USAGE_SAMPLE.names.index("throttle_ms"),
                pa.field("throttle_ms", pa.int64()),
                pc.if_else(odd, table.column("rate_units"), pa.scalar(None, pa.int64())),
            ).set_column(
                USAGE_SAMPLE.names.index("censored"),
                pa.field("censored", pa.string(), nullable=False),
                pc.if_else(odd, "yes", "no"),
            )
            _ = lake.commit(rows.unit(USAGE_SAMPLE, number), UnitContent(rows=table), None)
    return lake


def parts_of(lake: Lake, of: int = 1) -> list[FilePart]:
    return [
        FilePart(file=file, number=number, of=of)
        for manifest in lake.manifests(USAGE_SAMPLE)
        for file in manifest.files
        for number in range(of)
    ]


def folder_of(lake: Lake) -> Path:
    folder = lake.store.folder
    assert folder is not None
    return folder


def read(lake: Lake, query: RunQuery, parts: Iterable[FilePart]) -> Series:
    """The series of all runs."""
    runs_by_series = defaultdict(list)
    store = FolderReader(folder_of(lake))
    for part in parts:
        for batch in query.read(store, part):
            for run in batch.to_pylist():
                key = tuple(run[name] for name in SERIES)
                runs_by_series[key].append(tuple(run[name] for name in COLUMNS))
    return {key: samples_of(runs.read(of_series)) for key, of_series in runs_by_series.items()}


def expected(lake: Lake, query: RunQuery) -> Series:
    ts = pc.field("ts_ms")
    in_window = (ts >= query.from_ms) & (ts < query.to_ms)
    table = lake.read(lake.manifests(USAGE_SAMPLE), row_filter=in_window)
    return {
        key: samples_of(series)
        for key, series in sample_columns.series_by(table, SERIES)
        if query.series is None or key in query.series
    }


def key(user: str, broker: str) -> tuple[str, ...]:
    return (rows.CLUSTER, "produce", "user", user, "", "", broker)


@settings(max_examples=count_examples(40))
@given(
    begin=st.integers(-1, 3 * 24 * 120),
    length=st.integers(0, 3 * 24 * 120),
    of=st.integers(1, 9),
    requested=st.none()
    | st.sets(st.tuples(st.sampled_from([*USERS, "stranger"]), st.sampled_from("12"))),
)
def test_the_series_of_runs_equal_those_of_the_rows(
    lake: Lake, begin: int, length: int, of: int, requested: set[tuple[str, str]] | None
) -> None:
    from_ms = rows.at(0) + begin * 30_000
    query = RunQuery(
        from_ms=from_ms,
        to_ms=from_ms + length * 30_000,
        series=None if not requested else [key(*names) for names in sorted(requested)],
    )
    assert read(lake, query, parts_of(lake, of)) == expected(lake, query)


def test_runs_without_columns_are_the_series_that_have_samples_in_the_window(lake: Lake) -> None:
    query = RunQuery(from_ms=rows.at(1), to_ms=rows.at(2), columns=())
    batches: Iterator[pa.RecordBatch] = (
        batch
        for part in parts_of(lake)
        for batch in query.read(FolderReader(folder_of(lake)), part)
    )
    table = pa.Table.from_batches(batches)
    assert table.column_names == list(SERIES)
    assert {tuple(row.values()) for row in table.to_pylist()} == {
        key(user, broker) for user in USERS for broker in "12"
    }
    assert table.num_rows <= 2 * len(USERS) + 7  # a series is repeated where a row group ends


def test_row_groups_without_the_requested_series_are_not_read(tmp_path: Path) -> None:
    lake = rows.lake_in(tmp_path)
    table = rows.usage(users=USERS, rates=[at * 7919 % 2**31 for at in range(60_000)], step=1)
    _ = lake.commit(rows.unit(USAGE_SAMPLE), UnitContent(rows=table), None)
    sizes = []
    for series in (None, [key(USERS[0], "1")], [key("stranger", "1")]):
        store = RangeWatch(tmp_path)
        query = RunQuery(from_ms=0, to_ms=2**60, series=series)
        read_rows = sum(
            batch.num_rows for part in parts_of(lake) for batch in query.read(store, part)
        )
        sizes.append((store.size, read_rows))
    assert sizes[0][0] > 2 * sizes[1][0] > 2 * sizes[2][0]
    assert [number for _, number in sizes] == [9, 1, 0]


@given(st.lists(st.integers(0, 5 * sample_runs.TASK_ROWS), max_size=12))
def test_tasks_contain_each_file_once_and_have_bounded_sizes(amounts: list[int]) -> None:
    files = [
        UnitFile(path=f"{number}.parquet", size=1, rows=amount, sha256="0" * 64)
        for number, amount in enumerate(amounts)
    ]
    tasks = sample_runs.tasks_of(files)
    parts = [part for task in tasks for part in task]
    assert all(tasks)
    assert all(sum(part.rows for part in task) <= sample_runs.TASK_ROWS for task in tasks)
    assert [(part.file, part.number) for part in parts] == [
        (file, number)
        for file in files
        for number in range(max(1, -(-file.rows // sample_runs.TASK_ROWS)))
    ]
    assert len(tasks) <= 1 + 2 * sum(amounts) // sample_runs.TASK_ROWS


def test_a_file_that_is_missing_or_is_not_the_committed_one_is_named(tmp_path: Path) -> None:
    lake = rows.lake_in(tmp_path)
    _ = lake.commit(rows.unit(USAGE_SAMPLE), UnitContent(rows=rows.usage()), None)
    (part,) = parts_of(lake)
    path = tmp_path / part.file.path
    query = RunQuery(from_ms=0, to_ms=2**60)
    path.write_bytes(parquet_files.write_parquet(USAGE_SAMPLE, rows.usage(rates=(1,))))
    with pytest.raises(LakeDamaged) as raised:
        _ = read(lake, query, [part])
    assert raised.value.path == str(path)
    path.unlink()
    with pytest.raises(LakeDamaged, match="not there") as raised:
        _ = read(lake, query, [part])
    assert raised.value.path == str(path)
    path.mkdir()
    with pytest.raises(LakeError, match="cannot be read") as unreadable:
        _ = read(lake, query, [part])
    assert unreadable.value.path == str(path)


@pytest.mark.parametrize("columns", [COLUMNS, ()], ids=["samples", "series"])
@pytest.mark.parametrize("name", ["user", "ts_ms", "rate_units"])
def test_a_missing_value_is_an_error(tmp_path: Path, name: str, columns: tuple[str, ...]) -> None:
    """A sample without a user would count as one of the user in the row before."""
    table = rows.usage(users=("ann", "bea"))
    place = USAGE_SAMPLE.names.index(name)
    values = table.column(name).to_pylist()
    values[-1] = None
    column = pa.array(values, table.column(name).type)
    sink = tmp_path / "a.parquet"
    pq.write_table(table.set_column(place, pa.field(name, column.type), column), sink)
    part = FilePart(
        file=UnitFile(path="a.parquet", size=sink.stat().st_size, rows=len(values), sha256="0" * 64)
    )
    query = RunQuery(from_ms=0, to_ms=2**60, columns=columns)
    if name in ("ts_ms", *SERIES, *columns):
        with pytest.raises(LakeDamaged, match=f"1 of {len(values)} values in the column '{name}'"):
            _ = list(query.read(FolderReader(tmp_path), part))
    else:
        assert list(query.read(FolderReader(tmp_path), part))
