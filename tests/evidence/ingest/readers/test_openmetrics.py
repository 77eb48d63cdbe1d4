"""OpenMetrics and the classic text format: escapes, times in seconds and milliseconds, truncated files."""

import gzip
import math
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import TelemetryError
from reconciler.evidence.ingest.drop_reasons import DropCounts, DropReason
from reconciler.evidence.ingest.points import RecordedSeries
from reconciler.evidence.ingest.readers import openmetrics

T = 1_700_000_000
ANY = st.text(st.characters(exclude_categories=["Cs"]))
LABEL = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,8}", fullmatch=True).filter(
    lambda name: name != "__name__"
)


def read(tmp_path: Path, text: str | bytes) -> tuple[list[RecordedSeries], DropCounts]:
    path = tmp_path / "metrics.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    counts = DropCounts()
    return list(openmetrics.read(path, counts)), counts


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def test_samples_of_a_series_are_grouped(tmp_path: Path) -> None:
    series, counts = read(
        tmp_path,
        f'# TYPE m gauge\nm{{a="1"}} 1.5 {T}.25\nm{{a="2"}} NaN {T}\nm{{a="1"}} +Inf {T + 1}\nn 3 {T}\n# EOF\n',
    )
    assert [(entry.name, entry.labels, [at for at, _ in entry.points]) for entry in series] == [
        ("m", {"a": "1"}, [T * 1000 + 250, T * 1000 + 1000]),
        ("m", {"a": "2"}, [T * 1000]),
        ("n", {}, [T * 1000]),
    ]
    assert math.isnan(series[1].points[0][1])
    assert dict(counts) == {}


def test_classic_times_are_milliseconds_and_need_no_eof(tmp_path: Path) -> None:
    series, counts = read(tmp_path, f'm{{a="1",}} 1 {T}123\n\n# a remark\nm{{a="1"}}\t2\t{T}124 \n')
    points = [point for entry in series for point in entry.points]
    assert points == [(T * 1000 + 123, 1.0), (T * 1000 + 124, 2.0)]
    assert dict(counts) == {}


def test_a_dump_of_promtool_is_read(tmp_path: Path) -> None:
    series, _ = read(tmp_path, f'{{__name__="m", a="1"}} 1 {T}123\n{{"m.x", "b.c"="2"}} 1 {T}123\n')
    assert [(entry.name, entry.labels) for entry in series] == [
        ("m", {"a": "1"}),
        ("m.x", {"b.c": "2"}),
    ]


@given(st.dictionaries(LABEL, ANY, max_size=3))
def test_every_label_value_is_read_back(labels: dict[str, str]) -> None:
    inner = ",".join(f'{name}="{escaped(value)}"' for name, value in labels.items())
    with tempfile.TemporaryDirectory() as folder:
        (series,), counts = read(Path(folder), f"m{{{inner}}} 1 {T}\n# EOF\n")
    assert series.labels == labels
    assert dict(counts) == {}


@pytest.mark.parametrize(
    "value", ["} 1 2", '",b="c', "# {", "{}", "a" * 10_000, "\\", "\r", "\u2028"]
)
def test_label_values_that_resemble_the_format_are_read_as_values(
    tmp_path: Path, value: str
) -> None:
    (series,), counts = read(tmp_path, f'm{{a="{escaped(value)}",b="z"}} 1 {T}\n# EOF\n')
    assert series.labels == {"a": value, "b": "z"}
    assert dict(counts) == {}


def test_exemplars_are_ignored(tmp_path: Path) -> None:
    text = f'm_total{{a="1"}} 1 {T} # {{t="x"}} 0.5 {T}\nm_total 2 {T} # {{t="}} 1"}} 0.5\n# EOF\n'
    series, counts = read(tmp_path, text)
    assert [list(entry.points) for entry in series] == [[(T * 1000, 1.0)], [(T * 1000, 2.0)]]
    assert dict(counts) == {}


def test_samples_without_a_time_are_not_used(tmp_path: Path) -> None:
    series, counts = read(tmp_path, "m 1\n")
    assert (series, dict(counts)) == ([], {DropReason.NO_TIME: 1})


@pytest.mark.parametrize(
    ("text", "at"),
    [("20000", 20_000_000), ("1700000000000.5", T * 1000)],
)
def test_the_unit_of_a_time_is_found_by_its_size(tmp_path: Path, text: str, at: int) -> None:
    series, _ = read(tmp_path, f"m 1 {text}\n# EOF\n")
    assert series == [RecordedSeries.of("m", {}, [(at, 1.0)])]


@pytest.mark.parametrize(
    "line",
    [
        "m",
        "m{ 1 2",
        "m{a=1} 1",
        "m one",
        'm{a="1",a="2"} 1',
        r'm{a="\q"} 1',
        '{a="1"} 1',
        "m 1 x",
        "m 1_0",
        'm{a="1"b="2"} 1',
        "1m 1",
        'm{"n"} 1',
        "m 1 2 3",
    ],
)
def test_an_invalid_line_is_counted_with_its_place(tmp_path: Path, line: str) -> None:
    series, counts = read(tmp_path, f"good 1 {T}\n{line}\n# EOF\n")
    assert [entry.name for entry in series] == ["good"]
    assert counts[DropReason.BAD_LINE] == 1
    (example,) = counts.examples(DropReason.BAD_LINE)
    assert "metrics.txt:2: " in example
    assert counts.partial


def test_lines_after_the_end_marker_are_counted(tmp_path: Path) -> None:
    _, counts = read(tmp_path, f"m 1 {T}\n# EOF\nm 2 {T + 1}\n")
    assert "follows # EOF" in counts.examples(DropReason.BAD_LINE)[0]


def test_gzip_is_unpacked_and_a_cut_file_is_truncated(tmp_path: Path) -> None:
    path = tmp_path / "metrics.gz"
    packed = gzip.compress(f"m 1 {T}\nm 2 {T + 1}\n# EOF\n".encode())
    for content, truncated in ((packed, 0), (packed[:-12], 1)):
        path.write_bytes(content)
        counts = DropCounts()
        points = [point for series in openmetrics.read(path, counts) for point in series.points]
        assert points == [(T * 1000, 1.0), (T * 1000 + 1000, 2.0)][: len(points)]
        assert counts[DropReason.TRUNCATED] == truncated


def test_a_file_without_samples_is_an_error_unless_it_declares_itself_empty(tmp_path: Path) -> None:
    assert read(tmp_path, "# EOF\n") == ([], {})
    with pytest.raises(TelemetryError, match=r"no sample.*metrics\.txt:1"):
        read(tmp_path, "<html>\n</html>\n")


def test_a_long_file_is_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openmetrics, "_MANY", 1000)
    lines = "".join(f'm{{a="{n % 3}",long="{"x" * 80}"}} {n} {T + n}\n' for n in range(30_000))
    series, counts = read(tmp_path, lines + "# EOF\n")
    assert len(series) > 3
    assert sum(len(entry.points) for entry in series) == 30_000
    assert dict(counts) == {}


CONTENT = "".join(f'm{{a="ü{n}"}} {n} {T + n}\n' for n in range(9)) + "# EOF\n"


@given(st.integers(1, len(CONTENT.encode()) - 2))
def test_a_file_truncated_at_any_place_is_reported_and_no_value_is_invented(end: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        all_series, _ = read(Path(folder), CONTENT)
        try:
            series, counts = read(Path(folder), CONTENT.encode()[:end])
        except TelemetryError:
            assert b"\n" not in CONTENT.encode()[:end]
            return
    assert series == all_series[: len(series)]
    assert counts[DropReason.TRUNCATED] == 1 or CONTENT[:end].endswith("# EOF")


@given(
    st.one_of(
        st.binary(max_size=200),
        st.text(max_size=200).map(lambda value: f"m {value}\n".encode(errors="replace")),
    )
)
def test_random_bytes_raise_only_the_readers_error(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        try:
            read(Path(folder), content)
        except TelemetryError as wrong:
            assert "metrics.txt" in wrong.message  # noqa: PT017 - it may or may not raise
