"""Tests of charts: the positions of their parts."""

from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.render.use.charts import Bar, BarRow, Level, Plot, bar_chart, curve_chart

SPAN = 3_600_000


def text_of(value: int) -> str:
    return f"{value} B"


def drawn(text: str) -> ET.Element:
    return ET.fromstring(text)  # noqa: S314 - text of this test


def chart(points, **options) -> ET.Element:
    return drawn(curve_chart(Plot(title="use", points=points, span_ms=SPAN, **options), text_of))


def texts(root: ET.Element) -> list[str]:
    return [element.text or "" for element in root.iter("text")]


def test_a_limit_far_above_the_curve_is_a_text_and_does_not_flatten_it() -> None:
    root = chart(
        [(0, 5, 10), (SPAN, 5, 10)], levels=[Level(value=10**9, text="limit 1 GB/s", css="c-limit")]
    )
    assert "limit 1 GB/s ↑" in texts(root)
    assert not [line for line in root.findall("line") if line.get("class") == "c-limit"]
    assert "lies above the chart" in (root.findtext("title") or "")


def test_labels_of_two_close_limits_do_not_overlap() -> None:
    close = [
        Level(value=100, text="now", css="c-limit"),
        Level(value=99, text="then", css="c-limit-then"),
    ]
    root = chart([(0, 50, 90), (SPAN, 50, 90)], levels=close)
    ys = sorted(
        float(element.get("y"))
        for element in root.iter("text")
        if element.get("class") == "c-level"
    )
    assert ys[1] - ys[0] >= 11


numbers = st.integers(min_value=0, max_value=10**13)


@given(
    st.lists(
        st.tuples(st.integers(0, 400), numbers, numbers),
        min_size=1,
        max_size=30,
        unique_by=lambda point: point[0],
    ),
    st.lists(numbers.filter(bool), max_size=2),
    st.text(max_size=20),
)
def test_every_curve_stays_inside_its_chart(raw, limits, title) -> None:
    points = [(at * SPAN, min(mean, most), max(mean, most)) for at, mean, most in sorted(raw)]
    levels = [Level(value=limit, text=title, css="c-limit") for limit in limits]
    root = drawn(
        curve_chart(Plot(title=title, points=points, span_ms=SPAN, levels=levels), text_of)
    )
    for shape in [*root.findall("polyline"), *root.findall("polygon")]:
        for pair in shape.get("points", "").split():
            x, y = map(float, pair.split(","))
            assert 92 <= x <= 748.1
            assert 14 <= y <= 164.1


@pytest.mark.parametrize("share", [0.0, 0.5, 40.0])
def test_a_bar_stays_inside_its_scale_and_is_always_visible(share: float) -> None:
    root = drawn(
        bar_chart(
            "bars", [BarRow(name="one", bars=[Bar(share=share, css="c-now", text="x")])], mark=0.8
        )
    )
    (bar,) = root.findall("rect")
    assert 1 <= float(bar.get("width")) <= 400


def test_lines_below_a_name_have_space_and_are_not_shortened_with_it() -> None:
    half_bar = Bar(share=0.5, css="c-now", text="x")
    row = BarRow(name="n" * 90, bars=[half_bar], details=["produce · broker 1", "a cluster"])
    root = drawn(bar_chart("bars", [row, BarRow(name="next", bars=[half_bar, half_bar])]))
    labels = [(text.text or "", float(text.get("y"))) for text in root.findall("text")]
    lines = [pair for pair in labels if pair[0] != "x"]
    assert [text for text, _ in lines[1:]] == ["produce · broker 1", "a cluster", "next"]
    assert [after - before for (_, before), (_, after) in pairwise(lines)] == [16, 16, 26]
    assert lines[0][0] == "n" * 18 + "…" + "n" * 17
    height = float(root.get("viewBox").split()[-1])
    assert max(float(bar.get("y")) + 12 for bar in root.findall("rect")) < height
