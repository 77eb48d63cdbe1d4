"""Tests of charts: the positions of their parts."""

from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from reconciler.render.use.charts import Level, Plot, curve_chart

SPAN = 3_600_000


def text_of(value: int) -> str:
    return f"{value} B"


def drawn(text: str) -> ET.Element:
    return ET.fromstring(text)  # noqa: S314 - text of this test


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
