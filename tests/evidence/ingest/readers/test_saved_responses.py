"""Saved responses of Prometheus: every shape and truncation, and each derived value is reported."""

import gzip
import json
import math
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import TelemetryError
from reconciler.evidence.ingest.drop_reasons import DropCounts, DropReason
from reconciler.evidence.ingest.readers import saved_responses
from reconciler.evidence.ingest.readers.series import (
    RecordedSeries,
)

T = 1_700_000_000


def element(name: str, *values: list[Any], **labels: str) -> dict[str, Any]:
    return {"metric": {"__name__": name, **labels}, "values": list(values)}


def answer(*elements: dict[str, Any], kind: str = "matrix", **more: Any) -> dict[str, Any]:
    return {"status": "success", "data": {"resultType": kind, "result": list(elements)}, **more}


def read(
    tmp_path: Path, content: object, name: str = "saved.json"
) -> tuple[list[RecordedSeries], DropCounts]:
    path = tmp_path / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    counts = DropCounts()
    return list(saved_responses.read(path, counts)), counts


def test_a_matrix_result_contains_its_series(tmp_path: Path) -> None:
    series, counts = read(
        tmp_path,
        answer(element("m", [T + 0.123, "1.5"], [T + 15.2, "NaN"], [T + 30, "+Inf"], a="ü")),
    )
    (entry,) = series
    assert (entry.name, entry.labels) == ("m", {"a": "ü"})
    assert [at for at, _ in entry.points] == [T * 1000 + 123, T * 1000 + 15_200, T * 1000 + 30_000]
    values = [value for _, value in entry.points]
    assert values[0] == 1.5
    assert math.isnan(values[1])
    assert values[2] == math.inf
    assert dict(counts) == {}


def test_a_vector_result_contains_one_point_for_each_series(tmp_path: Path) -> None:
    series, _ = read(
        tmp_path, answer({"metric": {"__name__": "m"}, "value": [T, "2"]}, kind="vector")
    )
    assert list(series[0].points) == [(T * 1000, 2.0)]


def test_several_responses_bare_results_and_bare_elements_are_read(tmp_path: Path) -> None:
    entry = element("m", [T + 0.5, "1"])
    for text in (
        json.dumps(answer(entry)) + "\n" + json.dumps(answer(entry), indent=2),
        json.dumps([entry, entry]),
        json.dumps(entry) + "\n" + json.dumps(entry),
        json.dumps(
            {"data": {"result": [entry, entry], "resultType": "matrix"}, "status": "success"}
        ),
    ):
        assert len(read(tmp_path, text)[0]) == 2, text


def test_the_export_of_victoriametrics_is_read(tmp_path: Path) -> None:
    line = {
        "metric": {"__name__": "m"},
        "values": [1, 2.5],
        "timestamps": [T * 1000 + 7, T * 1000 + 8],
    }
    series, _ = read(tmp_path, line)
    assert list(series[0].points) == [(T * 1000 + 7, 1.0), (T * 1000 + 8, 2.5)]


def test_gzip_is_unpacked(tmp_path: Path) -> None:
    packed = gzip.compress(json.dumps(answer(element("m", [T, "1"]))).encode())
    assert len(read(tmp_path, packed, "saved.json.gz")[0]) == 1
    with_cut, counts = read(tmp_path, packed[:-12], "cut.json.gz")
    assert counts[DropReason.TRUNCATED] == 1
    assert len(with_cut) <= 1


def test_an_empty_result_is_accepted_and_an_empty_file_is_refused(tmp_path: Path) -> None:
    assert read(tmp_path, answer()) == ([], {})
    with pytest.raises(TelemetryError, match="no answer"):
        read(tmp_path, "")


def test_invalid_numbers_are_counted_and_the_rest_is_read(tmp_path: Path) -> None:
    series, counts = read(
        tmp_path,
        answer(
            element(
                "m",
                [T, "1"],
                [T, "one"],
                [T, "1_0"],
                [None, "1"],
                ["x"],
                [T, None],
                [1e300, "1"],
                [True, "1"],
            )
        ),
    )
    assert list(series[0].points) == [(T * 1000, 1.0)]
    assert (counts[DropReason.BAD_VALUE], counts[DropReason.NOT_A_TIME]) == (6, 1)


def test_native_histograms_are_counted(tmp_path: Path) -> None:
    series, counts = read(tmp_path, answer({"metric": {"__name__": "h"}, "histograms": [[T, {}]]}))
    assert (series, dict(counts)) == ([], {DropReason.HISTOGRAMS: 1})


def test_warnings_of_a_saved_response_make_it_partial(tmp_path: Path) -> None:
    _, counts = read(tmp_path, answer(element("m", [T, "1"]), warnings=["store down", "again"]))
    assert counts[DropReason.WARNINGS] == 2
    assert counts.partial


def test_a_saved_error_response_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TelemetryError, match="too many samples"):
        read(tmp_path, {"status": "error", "errorType": "execution", "error": "too many samples"})


@pytest.mark.parametrize(
    "text",
    [
        "hello",
        "12",
        "{]",
        '{"a": 1 "b": 2}',
        '{"data": {"result": [1 2]}}',
        "[" * 100_000,
        '{"a": ' + "9" * 5000 + "}",
        "{1: 2}",
    ],
)
def test_invalid_json_is_an_error_with_file_and_place(tmp_path: Path, text: str) -> None:
    with pytest.raises(TelemetryError, match=r"saved\.json"):
        read(tmp_path, text)


def test_invalid_utf_8_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TelemetryError, match="UTF-8"):
        read(tmp_path, b'{"a": "\xff"}')


CONTENT = json.dumps(
    answer(*(element("m", [T + 0.5, "1"], [T + 9, "2"], i=f"ü{n}") for n in range(5))),
    ensure_ascii=False,
)


@given(st.integers(1, len(CONTENT.encode()) - 1))
def test_a_truncated_file_gives_its_complete_series_and_is_reported(end: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        series, counts = read(Path(folder), CONTENT.encode()[:end])
        all_series, _ = read(Path(folder), CONTENT)
    assert counts[DropReason.TRUNCATED] == 1
    assert counts.partial
    assert series == all_series[: len(series)]


@given(st.binary(max_size=200))
def test_random_bytes_raise_only_the_readers_error(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        try:
            read(Path(folder), content)
        except TelemetryError as wrong:
            assert "saved.json" in wrong.message  # noqa: PT017 - it may or may not raise


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["data", "result", "metric", "values", "value", "status", "x"]),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_any_json_is_read_or_refused(content: object) -> None:
    with tempfile.TemporaryDirectory() as folder:
        try:
            read(Path(folder), content)
        except TelemetryError as wrong:
            assert "saved.json" in wrong.message  # noqa: PT017 - it may or may not raise


def test_a_large_file_is_read_element_by_element(tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    values = json.dumps([[T + n, "1.25"] for n in range(5_000)])
    with path.open("w") as file:
        file.write('{"status":"success","data":{"resultType":"matrix","result":[')
        file.write(
            ",".join(
                f'{{"metric":{{"__name__":"m","i":"{n}"}},"values":{values}}}' for n in range(60)
            )
        )
        file.write("]}}")
    counts = DropCounts()
    reading = saved_responses.read(path, counts)
    first = next(reading)
    assert len(first.points) == 5_000
    assert 1 + sum(1 for _ in reading) == 60


def test_values_repeated_by_a_range_query_are_reported(tmp_path: Path) -> None:
    """Look-back: on a grid of whole seconds, an ended series repeats its last value for five minutes."""
    dead = element("m", [T, "5"], [T + 60, "5"], [T + 120, "5"], a="1")
    alive = element("m", [T, "1"], [T + 60, "2"], [T + 120, "3"], a="2")
    _, counts = read(tmp_path, answer(dead, alive))
    assert counts[DropReason.RESAMPLED] == 2


def test_scrapes_with_offsets_are_not_reported_as_repeated(tmp_path: Path) -> None:
    first = element("m", [T + 0.123, "0"], [T + 60.123, "0"], a="1")
    second = element("m", [T + 7.5, "0"], [T + 67.5, "0"], a="2")
    _, counts = read(tmp_path, answer(first, second))
    assert counts[DropReason.RESAMPLED] == 0
