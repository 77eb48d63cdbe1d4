"""Parquet and CSV exports: supported layouts, times in every unit, and damaged files."""

import gzip
import math
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import TelemetryError
from reconciler.evidence.ingest.drop_reasons import DropCounts, DropReason
from reconciler.evidence.ingest.readers import column_files
from reconciler.evidence.ingest.readers.series import (
    RecordedSeries,
    TimeUnit,
)

T = 1_700_000_000_000
AT = datetime.fromtimestamp(T / 1000, UTC)


def parquet(tmp_path: Path, **of: pa.Array) -> Path:
    path = tmp_path / "points.parquet"
    pq.write_table(pa.table(of), path)
    return path


def csv(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "points.csv"
    path.write_text(text)
    return path


def read(path: Path, unit: TimeUnit = TimeUnit.AUTO) -> tuple[list[RecordedSeries], DropCounts]:
    counts = DropCounts()
    reader = column_files.csv if ".csv" in path.name else column_files.parquet
    return list(reader(path, counts, unit)), counts


def entries_of(
    series: list[RecordedSeries],
) -> list[tuple[str, dict[str, str], list[tuple[int, float]]]]:
    return [(entry.name, dict(entry.labels), list(entry.points)) for entry in series]


EXPECTED = [
    ("m", {"user": "007", "instance": "b1"}, [(T, 1.0), (T + 1000, 2.0)]),
    ("m", {"instance": "b1"}, [(T, 3.0)]),
]


def test_labels_may_be_columns(tmp_path: Path) -> None:
    path = parquet(
        tmp_path,
        ts_ms=pa.array([T, T + 1000, T]),
        metric=pa.array(["m"] * 3),
        value=pa.array([1.0, 2.0, 3.0]),
        user=pa.array(["007", "007", None]),
        instance=pa.array(["b1"] * 3).dictionary_encode(),
    )
    assert entries_of(read(path)[0]) == EXPECTED


def test_labels_may_be_a_map_a_struct_or_json(tmp_path: Path) -> None:
    labels = [{"user": "007"}, {"user": "007"}, {"user": None}]
    for column in (
        pa.array(
            [[(name, value) for name, value in row.items() if value] for row in labels],
            pa.map_(pa.string(), pa.string()),
        ),
        pa.array(labels),
        pa.array(['{"user": "007"}', '{"user":"007"}', "{}"]),
        pa.array(['{"user": "007"}', '{"user":"007"}', None]),
    ):
        path = parquet(
            tmp_path,
            timestamp=pa.array([T, T + 1000, T]),
            name=pa.array(["m"] * 3),
            value=pa.array([1, 2, 3]),
            labels=column,
            instance=pa.array(["b1"] * 3),
        )
        assert entries_of(read(path)[0]) == EXPECTED


def test_csv_is_read_as_text(tmp_path: Path) -> None:
    text = (
        f"instance,value,metric,ts,user\nb1,1,m,{T},007\nb1,2.0,m,{T + 1000},007\nb1,3e0,m,{T},\n"
    )
    assert entries_of(read(csv(tmp_path, text))[0]) == EXPECTED
    packed = tmp_path / "points.csv.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    assert entries_of(read(packed)[0]) == EXPECTED


@pytest.mark.parametrize(
    ("times", "unit"),
    [
        (pa.array([T]), TimeUnit.AUTO),
        (pa.array([T // 1000]), TimeUnit.AUTO),
        (pa.array([T / 1000]), TimeUnit.AUTO),
        (pa.array([T * 1000]), TimeUnit.AUTO),
        (pa.array([T * 1_000_000]), TimeUnit.AUTO),
        (pa.array([str(T // 1000)]), TimeUnit.AUTO),
        (pa.array([AT]), TimeUnit.AUTO),
        (pa.array([AT.replace(tzinfo=None)], pa.timestamp("ns")), TimeUnit.AUTO),
        (pa.array(["2023-11-14T22:13:20Z"]), TimeUnit.AUTO),
        (pa.array(["2023-11-15T00:13:20+02:00"]), TimeUnit.ISO),
        (pa.array([T // 1000]), TimeUnit.SECONDS),
    ],
)
def test_times_are_read_in_every_unit(tmp_path: Path, times: pa.Array, unit: TimeUnit) -> None:
    path = parquet(tmp_path, ts=times, metric=pa.array(["m"]), value=pa.array([1.0]))
    assert entries_of(read(path, unit)[0]) == [("m", {}, [(T, 1.0)])]


def test_small_numbers_in_a_column_of_milliseconds_are_milliseconds(tmp_path: Path) -> None:
    path = parquet(tmp_path, ts_ms=pa.array([5]), metric=pa.array(["m"]), value=pa.array([1.0]))
    assert list(read(path)[0][0].points) == [(5, 1.0)]


def test_a_time_without_a_zone_is_refused(tmp_path: Path) -> None:
    series, counts = read(csv(tmp_path, "ts,metric,value\n2023-11-14T22:13:20,m,1\n,m,1\nx,m,1\n"))
    assert (series, counts[DropReason.NOT_A_TIME]) == ([], 3)


def test_values_may_be_nan_and_must_be_present(tmp_path: Path) -> None:
    series, counts = read(
        csv(tmp_path, f"ts,metric,value\n{T},m,NaN\n{T},m,+Inf\n{T},m,\n{T},m,x\n")
    )
    (entry,) = series
    assert math.isnan(entry.points[0][1])
    assert entry.points[1][1] == math.inf
    assert counts[DropReason.BAD_VALUE] == 2


@pytest.mark.parametrize(
    ("header", "missing"),
    [("metric,value", "time"), ("ts,value", "metric"), ("ts,metric", "value")],
)
def test_a_missing_column_is_named_with_the_existing_ones(
    tmp_path: Path, header: str, missing: str
) -> None:
    with pytest.raises(TelemetryError, match=f"column for the {missing}") as wrong:
        read(csv(tmp_path, f"{header}\n1,2\n"))
    assert header.replace(",", ", ") in wrong.value.message


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TelemetryError, match="two columns"):
        read(csv(tmp_path, "ts,metric,value,user,user\n1,m,1,a,b\n"))


def test_columns_of_an_unexpected_type_are_refused(tmp_path: Path) -> None:
    path = parquet(tmp_path, ts=pa.array([T]), metric=pa.array(["m"]), value=pa.array([True]))
    with pytest.raises(TelemetryError, match="no numbers"):
        read(path)
    path = parquet(tmp_path, ts=pa.array([True]), metric=pa.array(["m"]), value=pa.array([1]))
    with pytest.raises(TelemetryError, match="unsupported type bool of the time column"):
        read(path)
    path = parquet(
        tmp_path,
        ts=pa.array([T]),
        metric=pa.array(["m"]),
        value=pa.array([1]),
        labels=pa.array([1]),
    )
    with pytest.raises(TelemetryError, match="neither a map"):
        read(path)


def test_rows_with_too_few_columns_or_without_labels_are_counted(tmp_path: Path) -> None:
    text = f'ts,metric,value,labels\n{T},m,1,{{}}\n{T},m\n{T},m,1,no\n{T},,1,{{}}\n{T},m,1,"{{""a"":1}}"\n'
    series, counts = read(csv(tmp_path, text))
    assert entries_of(series) == [("m", {}, [(T, 1.0)])]
    assert counts[DropReason.BAD_LINE] == 4
    assert counts.partial
    assert any(
        "2 columns instead of 4" in example for example in counts.examples(DropReason.BAD_LINE)
    )


def test_an_empty_file_is_an_error_and_an_empty_table_is_not(tmp_path: Path) -> None:
    with pytest.raises(TelemetryError, match="empty"):
        read(csv(tmp_path, ""))
    assert read(csv(tmp_path, "ts,metric,value\n")) == ([], {})
    with pytest.raises(TelemetryError, match=r"gone\.csv"):
        read(tmp_path / "gone.csv")


def test_a_truncated_parquet_file_is_an_error(tmp_path: Path) -> None:
    path = parquet(tmp_path, ts=pa.array([T]), metric=pa.array(["m"]), value=pa.array([1.0]))
    content = path.read_bytes()
    for end in (0, 3, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:end])
        with pytest.raises(TelemetryError, match="half-written"):
            read(path)


@given(st.binary(max_size=120), st.sampled_from(["csv", "parquet"]))
def test_random_bytes_raise_only_the_readers_error(content: bytes, ending: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"points.{ending}"
        path.write_bytes(content)
        try:
            read(path)
        except TelemetryError as wrong:
            assert "points." in wrong.message  # noqa: PT017 - it may or may not raise


@given(st.binary(max_size=60))
def test_random_rows_below_a_valid_header_raise_only_the_readers_error(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "points.csv"
        path.write_bytes(b"ts,metric,value,labels\n" + content)
        try:
            read(path)
        except TelemetryError as wrong:
            assert "points." in wrong.message  # noqa: PT017 - it may or may not raise
