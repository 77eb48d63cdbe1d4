"""A report of use as one HTML page: charts of use, limits, headroom and capacity, then tables."""

from collections.abc import Sequence
from html import escape
from typing import Final

from reconciler.base.escaping import escaped_lines
from reconciler.render.page.writer import (
    PageFiles,
    PagePart,
    PageSection,
    banner,
    html_text,
    page_html,
    page_section,
    paragraph,
)
from reconciler.render.use.charts import (
    Bar,
    BarRow,
    Level,
    Plot,
    bar_chart,
    curve_chart,
    for_every_screen,
)
from reconciler.render.use.client_tables import PATCH_DESCRIPTION, PATCH_TITLE
from reconciler.render.use.report_tables import BOUNDS, present_sign
from reconciler.render.use.report_text import (
    IN_THE_LAKE,
    headline,
    patches,
    report_notes,
    report_tables,
)
from reconciler.render.use.units import (
    between_per_day_text,
    bucket_text,
    moment_text,
    per_day_ms,
    share_text,
    type_text,
    units_text,
)
from reconciler.usage.impact.result_rows import ImpactRow
from reconciler.usage.impact.verdict import ImpactVerdict
from reconciler.usage.reports.client import ClientReport
from reconciler.usage.reports.usage import CapacityRow, UsageCurve, UsageReport, UsageRow
from reconciler.usage.samples import MILLION

MOST_BARS: Final = 16
MOST_CURVES: Final = 24


def use_page(
    report: UsageReport | ClientReport, files: PageFiles, *, made_ms: int, tool_version: str
) -> str:
    """Render the page.

    Args:
        files: The constant parts.
        made_ms: Time of the report, milliseconds since the epoch.
        tool_version: Version of this program.
    """
    sections = [
        *_charts(report),
        *(page_section(section, elsewhere=IN_THE_LAKE) for section in report_tables(report)),
    ]
    if documents := patches(report):
        inner = paragraph(PATCH_DESCRIPTION) + "".join(
            f"<pre tabindex='0'>{escape(escaped_lines(document))}</pre>" for document in documents
        )
        sections.append(PageSection("patches", PATCH_TITLE, inner))
    notes = "".join(map(paragraph, report_notes(report)))
    title = "Recorded use of Kafka quotas"
    part = PagePart(
        title=title, head=banner(_tone(report), headline(report)) + notes, sections=sections
    )
    created = moment_text(made_ms)
    return page_html([part], files, title=title, created=created, tool_version=tool_version)


def _tone(report: UsageReport | ClientReport) -> str:
    if isinstance(report, ClientReport):
        return "warn" if report.throttled_at else "plain"
    if any(evidence.stale for evidence in report.evidence):
        return "warn"
    simulation = report.simulation
    if simulation is None:
        return "plain"
    if simulation.breaches:
        return "bad"
    return (
        "warn" if simulation.verdicts.get(ImpactVerdict.WORSE) or not simulation.enough else "good"
    )


def _charts(report: UsageReport | ClientReport) -> list[PageSection]:
    """Return the charts; parts without rows have none."""
    if isinstance(report, ClientReport):
        return _curves(report.curves, "limit proposed")
    chart_parts: list[PageSection] = []
    if report.simulation is not None and (rows := _throttled(report.simulation.rows)):
        chart_parts.append(
            PageSection("before-after", "Throttled time now and then", _before_after(rows))
        )
    chart_parts += _curves(report.curves, "limit then")
    limited = [row for row in report.usage if row.limit_units]
    if limited:
        chart_parts.append(PageSection("headroom", "Headroom", _headroom(limited[:MOST_BARS])))
    budgeted = [row for row in report.capacity if row.budget_units]
    if budgeted:
        chart_parts.append(PageSection("capacity", "Capacity", _capacity(budgeted[:MOST_BARS])))
    return chart_parts


def _curves(curves: Sequence[UsageCurve], word: str) -> list[PageSection]:
    """Return the charts of curves; ``word``: the new limit."""
    figures = "".join(_figure(curve, word) for curve in curves[:MOST_CURVES])
    return [PageSection("curves", "Use against limits over time", figures)] if figures else []


def _throttled(rows: Sequence[ImpactRow]) -> list[ImpactRow]:
    return [
        row
        for row in rows
        if row.before_throttled_ms or row.after_throttled_ms or row.worst_throttled_ms
    ][:MOST_BARS]


def _before_after(rows: Sequence[ImpactRow]) -> str:
    top = max(
        per_day_ms(value, row.covered_ms) or 0
        for row in rows
        for value in (row.before_throttled_ms, row.after_throttled_ms, row.worst_throttled_ms)
    )

    has_several_clusters = _several(rows)

    def bar(
        length_ms: int | None, row: ImpactRow, css: str, sign: str = "", worst_ms: int | None = None
    ) -> Bar:
        daily, most = per_day_ms(length_ms, row.covered_ms), per_day_ms(worst_ms, row.covered_ms)
        per_day = between_per_day_text(length_ms, worst_ms, row.covered_ms)
        text = "not known" if daily is None else sign + per_day
        return Bar(share=(most or daily or 0) / max(1, top), css=css, text=text)

    bar_rows = [
        BarRow(
            name=bucket_text(row.bucket, any_name=row.any_name),
            details=_bar_labels(row, has_several_clusters=has_several_clusters),
            bars=[
                bar(row.before_throttled_ms, row, "c-now", present_sign(row)),
                bar(
                    row.after_throttled_ms, row, "c-then", BOUNDS[row.bound], row.worst_throttled_ms
                ),
            ],
        )
        for row in rows
    ]
    legend = (
        '<ul class="key"><li><span class="dot c-now-dot"></span>limit of today</li>'
        '<li><span class="dot c-then-dot"></span>limit to come</li></ul>'
    )
    title = (
        "Throttled time for each day of evidence, under the limit of today and the limit to come"
    )
    return legend + for_every_screen(lambda layout: bar_chart(title, bar_rows, layout))


def _figure(curve: UsageCurve, word: str) -> str:
    kind = curve.quota_type
    name = f"{bucket_text(curve.bucket)} · {type_text(kind)} · broker {curve.broker_id}"
    levels = [
        Level(value=value, text=f"{meaning} {units_text(kind, value)}", css=css)
        for value, meaning, css in (
            (curve.before_units, "limit now", "c-limit"),
            (curve.after_units, word, "c-limit-then"),
        )
        if value is not None and (css == "c-limit" or value != curve.before_units)
    ]
    if not curve.points:
        return f"<figure><figcaption>{html_text(name)}</figcaption><p class='quiet'>nothing was recorded</p></figure>"
    plot = Plot(
        title=f"{name}: mean and largest rate",
        points=curve.points,
        span_ms=curve.span_ms,
        levels=levels,
        marked=curve.throttled,
    )
    chart = for_every_screen(
        lambda layout: curve_chart(plot, lambda value: units_text(kind, value), layout)
    )
    caption = f"{html_text(name)}, cluster {html_text(curve.cluster_id)}"
    return f"<figure><figcaption>{caption}</figcaption>{chart}</figure>"


def _bar_labels(row: ImpactRow | UsageRow, *, has_several_clusters: bool) -> list[str]:
    """Return labels that distinguish bars of equal names: the type, the broker if recorded, the cluster if there are several."""
    parts = [type_text(row.quota_type), *([f"broker {row.broker_id}"] if row.broker_id else [])]
    return [" · ".join(parts), *([row.cluster_id] if has_several_clusters else [])]


def _several(rows: Sequence[ImpactRow] | Sequence[UsageRow]) -> bool:
    return len({row.cluster_id for row in rows}) > 1


def _headroom(rows: Sequence[UsageRow]) -> str:
    def bars(row: UsageRow) -> list[Bar]:
        limit = row.limit_units or 1
        return [
            Bar(
                share=value / limit * 0.8,
                css=css,
                text=f"{word} {share_text(value * MILLION // limit)}",
            )
            for value, css, word in (
                (row.p99_units, "c-now", "99 %:"),
                (row.max_rate_units, "c-most", "most:"),
            )
            if value is not None
        ]

    has_several_clusters = _several(rows)
    bar_rows = [
        BarRow(
            name=bucket_text(row.bucket),
            details=_bar_labels(row, has_several_clusters=has_several_clusters),
            bars=bars(row),
        )
        for row in rows
    ]
    title = "Use as a share of the limit; the line is the limit"
    return for_every_screen(lambda layout: bar_chart(title, bar_rows, layout, mark=0.8))


def _capacity(rows: Sequence[CapacityRow]) -> str:
    bar_rows = [
        BarRow(
            name=row.cluster_id,
            details=[f"broker {row.broker_id} · {row.direction.value}"],
            bars=[
                Bar(share=ppm / MILLION * 0.5, css=css, text=f"{word} {share_text(ppm)}")
                for ppm, css, word in (
                    (row.committed_ppm, "c-plain", "committed"),
                    (row.coincident_ppm, "c-now", "coincident"),
                )
                if ppm is not None
            ],
        )
        for row in rows
    ]
    title = "Limits and use as a share of the budget of each broker; the line is the budget"
    return for_every_screen(lambda layout: bar_chart(title, bar_rows, layout, mark=0.5))
