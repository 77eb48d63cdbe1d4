"""Charts as SVG text without scripts: a curve with its limits, and rows of bars with a mark.

Every chart has a text description (``role="img"`` with a title), takes its colours from CSS classes of the page, and has
no inline style, so it conforms to a strict content security policy. Chart texts are escaped here.
"""

from collections.abc import Callable, Sequence
from html import escape
from typing import Final, TypeAlias

from msgspec import Struct

from reconciler.base.escaping import escaped
from reconciler.render.use.units import axis_text
from reconciler.usage.samples import DAY_MS

HEIGHT: Final = 190
RIGHT, TOP, BOTTOM = 12, 14, 26
BAR_TEXT: Final = 160
"""Width beside the longest bar, for its text."""

_STEPS_MS: Final = tuple(
    minutes * 60_000 for minutes in (1, 2, 5, 10, 20, 30, 60, 180, 360, 720, 1440)
)
"""Distances of times on an axis, up to a day."""


class ChartLayout(Struct, frozen=True, kw_only=True, gc=False):
    """Sizes of a chart for one kind of screen, on which its texts are as large as those of the page."""

    css: str  # the class that shows it on these screens only
    width: int
    axis_width: int  # width of the texts of the vertical axis
    names: int  # width of the column for names in a bar chart; 0 = names are above their bars
    most_times: int  # maximum number of times on an axis


WIDE: Final = ChartLayout(css="wide", width=760, axis_width=92, names=250, most_times=8)
NARROW: Final = ChartLayout(css="narrow", width=300, axis_width=66, names=0, most_times=4)

TickText: TypeAlias = Callable[[int], str]
"""Formats a value of the vertical axis."""


class Level(Struct, frozen=True, kw_only=True, gc=False):
    """A horizontal line that marks a limit."""

    value: int
    text: str
    css: str


class Plot(Struct, frozen=True, kw_only=True, gc=False):
    """The content of a curve chart."""

    title: str  # text description for screen readers
    # `(begin in ms, mean, largest)`, ascending; at least one.
    points: Sequence[tuple[int, int, int]]
    span_ms: int  # length of a point; a larger distance is drawn as a gap
    # Limits; those above three times the peak are listed and not drawn.
    levels: Sequence[Level] = ()
    marked: Sequence[int] = ()


class Bar(Struct, frozen=True, kw_only=True, gc=False):
    """One bar: its share of the scale, its CSS class, and the text beside it."""

    share: float
    css: str
    text: str


class BarRow(Struct, frozen=True, kw_only=True, gc=False):
    """One row of a bar chart: a name and its bars, one below the other."""

    name: str  # the name of the row, shortened in the middle if too long
    bars: Sequence[Bar]
    details: Sequence[str] = ()  # lines below the name, which distinguish rows of equal names


def for_every_screen(draw: Callable[[ChartLayout], str]) -> str:
    """Return a chart for wide screens and the same for phones; the style shows one of both."""
    return draw(WIDE) + draw(NARROW)


def curve_chart(plot: Plot, tick_text: TickText, layout: ChartLayout = WIDE) -> str:
    """Draw the mean and the largest rate over time with limits."""
    peak = max(1, *(maximum for _, _, maximum in plot.points))
    visible_levels = [level for level in plot.levels if level.value <= 3 * peak]
    top = max(peak, *(level.value for level in visible_levels)) if visible_levels else peak
    scale = _Scale(
        layout=layout,
        from_ms=plot.points[0][0],
        to_ms=plot.points[-1][0] + plot.span_ms,
        top=top * 1.06,
    )
    end = layout.width - RIGHT
    parts = [_axes(scale, top, tick_text)]
    for run in _runs(plot):
        parts.append(_band(run, scale, plot.span_ms))
        parts.append(_line(run, scale, plot.span_ms))
    parts += [
        f'<rect class="c-mark" x="{scale.x(begin):.1f}" y="{HEIGHT - BOTTOM - 5}"'
        f' width="{max(1.0, scale.x(begin + plot.span_ms) - scale.x(begin)):.1f}" height="5"/>'
        for begin in plot.marked
    ]
    last = TOP - 8.0
    for level_line in sorted(visible_levels, key=lambda level: -level.value):
        y = scale.y(level_line.value)
        at = max(y - 4, last + 12)  # texts never overlap
        last = at
        parts.append(
            f'<line class="{level_line.css}" x1="{layout.axis_width}" x2="{end}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text class="c-level" x="{end}" y="{at:.1f}" text-anchor="end">{_text(level_line.text)}</text>'
        )
    above = [level for level in plot.levels if level.value > 3 * peak]
    words = "; ".join([plot.title, *(f"{level.text} lies above the chart" for level in above)])
    parts += [
        f'<text class="c-level" x="{end}" y="{last + 14 + 12 * n:.1f}" text-anchor="end">{_text(level.text)} ↑</text>'
        for n, level in enumerate(above)
    ]
    return _svg(words, layout, HEIGHT, parts)


def bar_chart(
    title: str, rows: Sequence[BarRow], layout: ChartLayout = WIDE, *, mark: float | None = None
) -> str:
    """Draw rows of bars on one scale; ``mark`` is the share at which a vertical line is drawn (a limit, a budget).

    Bars beyond the scale are cut at its end; their text has the number.
    """
    is_beside = layout.names > 0
    start_x = layout.names or 4
    room = layout.width - start_x - BAR_TEXT
    anchor, names_x = ("end", start_x - 8) if is_beside else ("start", start_x)
    parts: list[str] = []
    y = float(TOP)
    for row in rows:
        labels = [("c-name", row.name), *(("c-tick", detail) for detail in row.details)]
        parts += [
            f'<text class="{css}" x="{names_x}" y="{y + 11 + 16 * n:.1f}" text-anchor="{anchor}">{_text(_short(line))}</text>'
            for n, (css, line) in enumerate(labels)
        ]
        if not is_beside:
            y += 16 * len(labels)
        for n, bar in enumerate(row.bars):
            width = max(1.0, min(1.0, bar.share) * room)
            parts.append(
                f'<rect class="{bar.css}" x="{start_x}" y="{y + 16 * n:.1f}" width="{width:.1f}" height="12" rx="2"/>'
                f'<text class="c-tick" x="{start_x + width + 6:.1f}" y="{y + 16 * n + 10:.1f}">{_text(bar.text)}</text>'
            )
        y += 16 * (max(len(labels), len(row.bars)) if is_beside else len(row.bars)) + 10
    height = y + 6
    if mark is not None:  # first, so that texts are drawn over it
        x = start_x + mark * room
        parts.insert(
            0, f'<line class="c-limit" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 6}" y2="{height - 4}"/>'
        )
    return _svg(title, layout, height, parts)


class _Scale(Struct, frozen=True, kw_only=True, gc=False):
    layout: ChartLayout
    from_ms: int
    to_ms: int
    top: float

    def x(self, at_ms: int) -> float:
        span = max(1, self.to_ms - self.from_ms)
        layout = self.layout
        return layout.axis_width + (at_ms - self.from_ms) / span * (
            layout.width - layout.axis_width - RIGHT
        )

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - value / self.top * (HEIGHT - TOP - BOTTOM)


def _runs(plot: Plot) -> list[list[tuple[int, int, int]]]:
    """Split the points at gaps."""
    runs: list[list[tuple[int, int, int]]] = [[]]
    for point in plot.points:
        if runs[-1] and point[0] - runs[-1][-1][0] > plot.span_ms:
            runs.append([])
        runs[-1].append(point)
    return runs


def _band(run: Sequence[tuple[int, int, int]], scale: _Scale, span_ms: int) -> str:
    half = span_ms // 2
    up = [f"{scale.x(at + half):.1f},{scale.y(maximum):.1f}" for at, _, maximum in run]
    down = [f"{scale.x(at + half):.1f},{scale.y(mean):.1f}" for at, mean, _ in reversed(run)]
    return f'<polygon class="c-band" points="{" ".join([*up, *down])}"/>'


def _line(run: Sequence[tuple[int, int, int]], scale: _Scale, span_ms: int) -> str:
    half = span_ms // 2
    if len(run) == 1:
        at, mean, _ = run[0]
        return (
            f'<circle class="c-dot" cx="{scale.x(at + half):.1f}" cy="{scale.y(mean):.1f}" r="2"/>'
        )
    points = " ".join(f"{scale.x(at + half):.1f},{scale.y(mean):.1f}" for at, mean, _ in run)
    return f'<polyline class="c-line" points="{points}"/>'


def _axes(scale: _Scale, top: int, tick_text: TickText) -> str:
    parts: list[str] = []
    start_x, end = scale.layout.axis_width, scale.layout.width - RIGHT
    for value in _ticks(top):
        y = scale.y(value)
        parts.append(
            f'<line class="c-grid" x1="{start_x}" x2="{end}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text class="c-tick" x="{start_x - 6}" y="{y + 4:.1f}" text-anchor="end">{_text(tick_text(value))}</text>'
        )
    for at in _times(scale):
        x = scale.x(at)
        parts.append(
            f'<line class="c-grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>'
            f'<text class="c-tick" x="{x:.1f}" y="{HEIGHT - 8}" text-anchor="middle">{_text(axis_text(at))}</text>'
        )
    return "".join(parts)


def _times(scale: _Scale) -> list[int]:
    """Return round times of the axis, as many as fit, none so near the end that its text is cut off."""
    span_ms, most = scale.to_ms - scale.from_ms, scale.layout.most_times
    days_ms = -(-span_ms // most // DAY_MS) * DAY_MS
    step_ms = next((step for step in _STEPS_MS if span_ms <= step * most), days_ms)
    first = -(-scale.from_ms // min(step_ms, DAY_MS)) * min(step_ms, DAY_MS)
    last_x = scale.layout.width - RIGHT - 6
    return [at for at in range(first, scale.to_ms, step_ms) if scale.x(at) < last_x]


def _ticks(top: int) -> list[int]:
    """Return zero and round numbers up to the top, at most four of them unless the top is below 12."""
    step = max(1, top // 4)
    size: int = 10 ** max(0, len(str(step)) - 1)
    step = next(size * n for n in (1, 2, 5, 10) if size * n >= step)
    return list(range(0, top + 1, step))


def _svg(title: str, layout: ChartLayout, height: float, parts: Sequence[str]) -> str:
    words = _text(title)
    return (
        f'<svg class="chart {layout.css}" role="img" viewBox="0 0 {layout.width} {height:.0f}" aria-label="{words}">'
        f"<title>{words}</title>{''.join(parts)}</svg>"
    )


def _short(name: str, max_length: int = 36) -> str:
    """Cut a name in the middle: names with a common prefix differ at their ends."""
    half = max_length // 2
    return name if len(name) <= max_length else f"{name[:half]}…{name[half + 1 - max_length :]}"


def _text(text: str) -> str:
    return escape(escaped(text))
