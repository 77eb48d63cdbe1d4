"""Reports of use as text, Markdown, JSON and a page: the same facts everywhere, and escaped names."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from reconciler.codecs.use_report import report_document
from reconciler.render.json_values import dump
from reconciler.render.table import Style, columns_of
from reconciler.render.use import report_tables
from reconciler.render.use.report_tables import sheets
from reconciler.render.use.report_text import headline, report_markdown, report_text
from reconciler.usage.impact.result_rows import Simulation
from reconciler.usage.impact.verdict import ImpactVerdict
from reconciler.usage.recommendation.limit_sizes import Advice
from reconciler.usage.reports.usage import ResultOrigin, UsageReport
from reconciler.usage.samples import DAY_MS, QuotaType
from reconciler.usage.throttle_models import FigureBound
from tests.cli import recommendations
from tests.render.use_reports import (
    EVIDENCE,
    EVIL,
    IMPACT,
    SIMULATION,
    USAGE,
    hostile_report,
    page,
    whole_report,
)

FACTS = (
    "user=etl,client-id=loader",
    "20 MiB/s",
    "5 MiB/s",
    "≥ 30 min a day",
    "worse",
    "gold",
    "240 %",
    "throttled",
)


@pytest.mark.parametrize("make", [report_text, report_markdown, page])
def test_every_part_of_a_report_is_in_every_format(make) -> None:
    text = make(whole_report())
    for title in (table.title for table in sheets(whole_report())):
        assert title in text
    plain = text.replace("&#61;", "=")
    assert [fact for fact in FACTS if fact not in plain] == []
    assert "one day is missing" in text


@pytest.mark.parametrize("width", [80, 200])
def test_a_terminal_folds_every_line_and_a_pipe_none(width) -> None:
    piped, folded = (
        report_text(whole_report()),
        report_text(whole_report(), style=Style(width=width)),
    )
    assert (
        max(map(columns_of, folded.splitlines())) <= width < len(max(piped.splitlines(), key=len))
    )
    assert "".join(folded.split()) == "".join(piped.split())


def texts(row) -> tuple[str, ...]:
    return tuple(cell.text for cell in row)


def test_a_refusal_by_a_small_difference_shows_the_difference() -> None:
    (breach,) = SIMULATION.breaches
    narrow = replace(breach, breach=replace(breach.breach, found_ms=60_900, allowed_ms=60_000))
    (cells,) = report_tables.BREACHES.of([narrow]).rows
    assert texts(cells)[-2:] == ("1 min 900 ms", "1 min")


def test_omitted_rows_are_counted_everywhere() -> None:
    report = replace(whole_report(), usage=(USAGE,) * 60)
    assert "and 12 more rows" in report_text(report)
    assert "and 12 more rows" in page(report)


def test_markdown_contains_every_row_of_a_report() -> None:
    report = replace(whole_report(), usage=(USAGE,) * 60)
    assert "and 12 more rows" in report_markdown(report)
    (used,) = re.findall("### Use against limits\n.*?(?=### )", report_markdown(report), re.DOTALL)
    assert used.count("\n| `user=etl") == 60


def test_rows_that_are_only_counted_are_in_the_first_sentence_of_every_format() -> None:
    simulation = Simulation(
        evidence=(EVIDENCE,),
        rows=(IMPACT,),
        left_out=1_233,
        left_blind=34,
        verdicts={ImpactVerdict.WORSE: 1_200, ImpactVerdict.SAME: 4, ImpactVerdict.NO_DATA: 30},
    )
    text = "1,234 buckets on brokers: 1,200 get worse, 4 may get worse (what was recorded was held back), 30 have no data"
    report = UsageReport(simulation=simulation)
    assert headline(report) == text
    assert report_document(report)["headline"] == text
    for make in (report_text, report_markdown, page):
        assert "1,200 get worse" in make(report)
    assert report_document(report)["simulation"]["verdicts"] == {
        "worse": 1_200,
        "same": 4,
        "no data": 30,
    }


def test_every_figure_of_a_lower_bound_is_marked() -> None:
    (figures, unknown) = report_tables.IMPACT.of(SIMULATION.rows).rows
    assert texts(figures)[8:11] == ("≥ 30 min a day", "≥ 5 min", "≥ 14 min")
    assert texts(unknown)[8:11] == ("-", "-", "-")
    exact = replace(IMPACT, bound=FigureBound.EXACT)
    assert texts(report_tables.IMPACT.of([exact]).rows[0])[9:11] == ("5 min", "14 min")


def test_figures_of_an_interval_show_both_cases_or_the_marked_best_case() -> None:
    between = replace(
        IMPACT,
        quota_type=QuotaType.FETCH,
        bound=FigureBound.BETWEEN,
        worst_throttled_ms=14 * 60 * 60_000,
        worst_max_delay_ms=600_000,
    )
    (figures,) = map(texts, report_tables.IMPACT.of([between]).rows)
    assert figures[7:11] == (
        "≥ 1 min a day",
        "between 30 min and 1 h a day",
        "between 5 min and 10 min",
        "≥ 14 min",
    )
    report = UsageReport(simulation=Simulation(evidence=(), rows=(between,)))
    assert all(f">{figure}</text>" in page(report) for figure in figures[7:9])


def origin(table: str, **more: object) -> ResultOrigin:
    new_origin = ResultOrigin(
        table=table,
        cluster_id="prod-id",
        from_ms=EVIDENCE.from_ms,
        to_ms=EVIDENCE.to_ms,
        snapshot_id="look-1",
        made_ms=EVIDENCE.to_ms,
        other_window=False,
    )
    return replace(new_origin, **more)


def test_results_from_the_lake_show_their_window_and_their_snapshot() -> None:
    before = {"from_ms": EVIDENCE.from_ms - 30 * DAY_MS, "to_ms": EVIDENCE.to_ms - 30 * DAY_MS}
    report = replace(
        whole_report(),
        simulation=replace(SIMULATION, breaches=()),
        origins=(origin("impact_row", other_window=True, **before), origin("recommendation")),
    )
    by_name = {table.name: table for table in sheets(report)}
    assert by_name["impact_row"].title == (
        "What the change would have done (2026-10-19 00:00 UTC to 2026-11-02 00:00 UTC; not the window of this report)"
    )
    assert "see `kquota usage simulate`" in by_name["impact_row"].notes[-1]
    assert by_name["recommendation"].title == (
        "Recommended limits (2026-11-18 00:00 UTC to 2026-12-02 00:00 UTC)"
    )
    assert [texts(row)[1:] for row in by_name["origins"].rows] == [
        (
            "what-if",
            "2026-10-19 00:00 UTC",
            "2026-11-02 00:00 UTC",
            "2026-12-02 00:00 UTC",
            "look-1",
            "another than this report's",
        ),
        (
            "recommendations",
            "2026-11-18 00:00 UTC",
            "2026-12-02 00:00 UTC",
            "2026-12-02 00:00 UTC",
            "look-1",
            "the report's",
        ),
    ]
    assert headline(report).startswith("the newest simulation in the lake: 5 buckets")
    for make in (report_text, report_markdown, page):
        assert "2026-10-19 00:00 UTC to 2026-11-02 00:00 UTC" in make(report)
    several = (*report.origins, origin("impact_row", cluster_id="b"))
    titles = [table.title for table in sheets(replace(report, origins=several))]
    assert (
        "What the change would have done (of several windows; not the window of this report)"
        in titles
    )
    plain = [table.title for table in sheets(whole_report())]
    assert "What the change would have done" in plain


def test_the_first_sentence_summarises_the_report() -> None:
    assert (
        headline(whole_report())
        == "5 buckets on brokers: 3 get worse, 1 cannot be known; the policy refuses 1 figure"
    )
    assert headline(UsageReport()) == "nothing was recorded"
    empty = Simulation(evidence=(EVIDENCE,), rows=())
    assert headline(UsageReport(simulation=empty)) == "no limit changes that recorded use can judge"
    assert headline(UsageReport(usage=(USAGE,), left_out={"usage_row": 2})) == "3 buckets in use"


@pytest.mark.parametrize(
    ("advice", "left_out", "text"),
    [
        (
            [Advice.INSUFFICIENT] * 8,
            0,
            "8 limits sized, 0 recommended to change (8 without enough evidence)",
        ),
        ([Advice.CHANGE, Advice.KEEP], 3, "5 limits sized, 1 recommended to change"),
        ([Advice.CHANGE], 3, "4 limits sized, at least 1 recommended to change"),
    ],
)
def test_only_limits_to_change_are_called_recommended(
    advice: list[Advice], left_out: int, text: str
) -> None:
    rows = tuple(replace(recommendations.row(), advice=of_row) for of_row in advice)
    report = UsageReport(recommendations=rows, left_out={"recommendation": left_out})
    assert headline(report) == text


def test_json_has_every_column_of_every_row() -> None:
    document = json.loads(dump(report_document(whole_report())))
    assert (document["kind"], document["format"]) == ("kquota-use", 1)
    (first, _) = document["simulation"]["rows"]
    assert first["user"] == "etl"
    assert first["after_throttled_ms"] == IMPACT.after_throttled_ms
    assert document["recommendations"][0]["rules"] == ["cut"]
    assert document["curves"][0]["points"][0] == [EVIDENCE.from_ms, 6 * 2**20, 9 * 2**20]


def test_text_with_hostile_names_keeps_its_lines() -> None:
    text = report_text(hostile_report())
    assert "\u202e" not in text
    assert not [line for line in text.splitlines() if line.lstrip().startswith("::")]


def test_markdown_with_hostile_names_contains_no_markup_of_them() -> None:
    text = report_markdown(hostile_report())
    assert "<img" not in text
    assert "@team" not in text
    for line in text.splitlines():
        if line.startswith("| "):
            assert line.endswith(" |")


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.add(tag)


def test_a_page_with_hostile_names_has_only_the_tags_of_an_ordinary_one() -> None:
    hostile, usual = _Tags(), _Tags()
    hostile.feed(page(hostile_report()))
    usual.feed(page(whole_report()))
    assert hostile.found <= usual.found
    assert hostile.found.isdisjoint({"img", "iframe"})
    assert EVIL not in page(hostile_report())


def test_a_page_contains_only_styles_that_its_policy_allows() -> None:
    assert " style=" not in page(whole_report())
    assert page(whole_report()).count("<style>") == 1


def test_an_unknown_percentile_is_not_shown_as_no_limit() -> None:
    unknown = replace(USAGE, limit_units=None, p50_units=None, p95_units=None, p99_units=None)
    (row,) = map(texts, report_tables.USAGE.of([unknown]).rows)
    assert row[4] == "no limit"
    assert row[6:9] == ("-", "-", "-")
