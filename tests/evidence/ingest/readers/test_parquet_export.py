"""Parquet exports: supported layouts, times in every unit, refused columns, and damaged files."""

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
from reconciler.evidence.ingest.readers import parquet_export
from reconciler.evidence.ingest.readers.series import RecordedSeries

T = 1_700_000_000_000
AT = datetime.fromtimestamp(T / 1000, UTC)
LABELS = [{"user": "007"}, {"user": "007"}, {"user": None}]


def parquet(tmp_path: Path, **of: pa.Array) -> Path:
    path = tmp_path / "points.parquet"
    pq.write_table(pa.table(of), path)
    return path


def read(path: Path) -> tuple[list[RecordedSeries], DropCounts]:
    counts = DropCounts()
    return list(parquet_export.read(path, counts)), counts


def entries_of(
    series: list[RecordedSeries],
) -> list[tuple[str, dict[str, str], list[tuple[int, float]]]]:
    return [(entry.name, dict(entry.labels), list(entry.points)) for entry in series]


EXPECTED = [
    ("m", {"user": "007", "instance": "1"}, [(T, 1.0), (T + 1000, 2.0)]),
    ("m", {"instance": "1"}, [(T, 3.0)]),
]


@pytest.mark.parametrize(
    "instance", [pa.array(["1"] * 3).dictionary_encode(), pa.array(["1"] * 3), pa.array([1, 1, 1])]
)
def test_labels_may_be_columns(tmp_path: Path, instance: pa.Array) -> None:
    path = parquet(
        tmp_path,
        ts_ms=pa.array([T, T + 1000, T]),
        metric=pa.array(["m"] * 3),
        value=pa.array([1.0, 2.0, 3.0]),
        user=pa.array(["007", "007", None]),
        client_id=pa.nulls(3),
        instance=instance,
    )
    assert entries_of(read(path)[0]) == EXPECTED


@pytest.mark.parametrize("last", ["{}", None, '{"user": null}', '{"user": ""}'])
def test_labels_may_be_json(tmp_path: Path, last: str | None) -> None:
    path = parquet(
        tmp_path,
        timestamp=pa.array([T, T + 1000, T]),
        name=pa.array(["m"] * 3),
        value=pa.array([1, 2, 3]),
        labels=pa.array(['{"user": "007"}', '{"user": "007"}', last]),
        instance=pa.array(["1"] * 3),
    )
    assert entries_of(read(path)[0]) == EXPECTED


@pytest.mark.parametrize(
    "labels",
    [
        pa.array([[("user", "007")]] * 3, pa.map_(pa.string(), pa.string())),
        pa.array(LABELS),
        pa.array([1.5, 2.5, 3.5]),
    ],
)
@pytest.mark.parametrize("column", ["labels", "user"])
def test_labels_of_another_type_are_refused_with_what_to_write_instead(
    tmp_path: Path, column: str, labels: pa.Array
) -> None:
    of = {"ts_ms": pa.array([T] * 3), "metric": pa.array(["m"] * 3), "value": pa.array([1, 2, 3])}
    with pytest.raises(TelemetryError, match=f"column {column} holds") as refused:
        read(parquet(tmp_path, **of, **{column: labels}))
    assert "one text column for each label" in refused.value.hint


@pytest.mark.parametrize(
    "times",
    [
        pa.array([T]),
        pa.array([T // 1000]),
        pa.array([T / 1000]),
        pa.array([T * 1000]),
        pa.array([T * 1_000_000]),
        pa.array([AT]),
        pa.array([AT.replace(tzinfo=None)], pa.timestamp("ns")),
    ],
)
def test_times_are_read_in_every_unit(tmp_path: Path, times: pa.Array) -> None:
    path = parquet(tmp_path, ts=times, metric=pa.array(["m"]), value=pa.array([1.0]))
    assert entries_of(read(path)[0]) == [("m", {}, [(T, 1.0)])]


def test_small_numbers_in_a_column_of_milliseconds_are_milliseconds(tmp_path: Path) -> None:
    path = parquet(tmp_path, ts_ms=pa.array([5]), metric=pa.array(["m"]), value=pa.array([1.0]))
    assert list(read(path)[0][0].points) == [(5, 1.0)]


def test_values_may_be_nan_and_times_and_values_must_be_present(tmp_path: Path) -> None:
    path = parquet(
        tmp_path,
        ts=pa.array([float(T), T, T, None, math.inf]),
        metric=pa.array(["m"] * 5),
        value=pa.array([math.nan, math.inf, None, 1.0, 1.0]),
    )
    (entry,), counts = read(path)
    assert math.isnan(entry.points[0][1])
    assert entry.points[1][1] == math.inf
    assert (counts[DropReason.BAD_VALUE], counts[DropReason.NOT_A_TIME]) == (1, 2)


def test_rows_without_a_metric_or_labels_are_counted(tmp_path: Path) -> None:
    path = parquet(
        tmp_path,
        ts_ms=pa.array([T] * 5),
        metric=pa.array(["m", None, "m", "m", "m"]),
        value=pa.array([1] * 5),
        labels=pa.array(["{}", "{}", "no", "[]", '{"a":1}']),
    )
    series, counts = read(path)
    assert entries_of(series) == [("m", {}, [(T, 1.0)])]
    assert counts[DropReason.BAD_LINE] == 4
    assert counts.partial


@pytest.mark.parametrize("missing", ["ts", "metric", "value"])
def test_a_missing_column_is_named_with_the_existing_ones(tmp_path: Path, missing: str) -> None:
    columns = {"ts": pa.array([T]), "metric": pa.array(["m"]), "value": pa.array([1])}
    del columns[missing]
    role = {"ts": "time"}.get(missing, missing)
    with pytest.raises(TelemetryError, match=f"column for the {role}") as wrong:
        read(parquet(tmp_path, **columns))
    assert ", ".join(columns) in wrong.value.message


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "points.parquet"
    columns = [pa.array([T]), pa.array(["m"]), pa.array([1]), pa.array(["a"]), pa.array(["b"])]
    pq.write_table(pa.table(columns, ["ts", "metric", "value", "user", "user"]), path)
    with pytest.raises(TelemetryError, match="two columns"):
        read(path)


@pytest.mark.parametrize(
    ("column", "values"),
    [("value", pa.array([True])), ("ts", pa.array([True])), ("ts", pa.array(["2023"]))],
)
def test_times_and_values_of_another_type_are_refused(
    tmp_path: Path, column: str, values: pa.Array
) -> None:
    columns = {"ts": pa.array([T]), "metric": pa.array(["m"]), "value": pa.array([1])}
    with pytest.raises(TelemetryError, match=f"column {column} holds"):
        read(parquet(tmp_path, **(columns | {column: values})))


def test_an_empty_table_has_no_series(tmp_path: Path) -> None:
    empty = {"ts": pa.array([], pa.int64()), "metric": pa.array([], pa.string())}
    assert read(parquet(tmp_path, **empty, value=pa.array([], pa.float64()))) == ([], {})
    with pytest.raises(TelemetryError, match=r"gone\.parquet"):
        read(tmp_path / "gone.parquet")


def test_a_truncated_file_is_an_error(tmp_path: Path) -> None:
    path = parquet(tmp_path, ts=pa.array([T]), metric=pa.array(["m"]), value=pa.array([1.0]))
    content = path.read_bytes()
    for end in (0, 3, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:end])
        with pytest.raises(TelemetryError, match="half-written"):
            read(path)


def test_a_row_group_that_does_not_fit_into_the_memory_is_refused_by_the_footer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = parquet(tmp_path, ts=pa.array([T]), metric=pa.array(["m"]), value=pa.array([1.0]))
    monkeypatch.setattr(parquet_export, "MOST_GROUP_BYTES", 100)
    with pytest.raises(
        TelemetryError, match=r"points\.parquet.*has a row group of .* bytes; 100 are"
    ):
        read(path)


@given(st.binary(max_size=120))
def test_random_bytes_raise_only_the_readers_error(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "points.parquet"
        path.write_bytes(b"PAR1" + content)
        with pytest.raises(TelemetryError, match=r"points\."):
            read(path)
