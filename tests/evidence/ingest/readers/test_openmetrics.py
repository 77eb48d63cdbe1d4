"""OpenMetrics and the classic text format: escapes, times in seconds and milliseconds, truncated files."""

import gzip
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


def test_samples_without_a_time_are_not_used(tmp_path: Path) -> None:
    series, counts = read(tmp_path, "m 1\n")
    assert (series, dict(counts)) == ([], {DropReason.NO_TIME: 1})


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


def test_gzip_is_unpacked_and_a_cut_file_is_truncated(tmp_path: Path) -> None:
    path = tmp_path / "metrics.gz"
    packed = gzip.compress(f"m 1 {T}\nm 2 {T + 1}\n# EOF\n".encode())
    for content, truncated in ((packed, 0), (packed[:-12], 1)):
        path.write_bytes(content)
        counts = DropCounts()
        points = [point for series in openmetrics.read(path, counts) for point in series.points]
        assert points == [(T * 1000, 1.0), (T * 1000 + 1000, 2.0)][: len(points)]
        assert counts[DropReason.TRUNCATED] == truncated


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
