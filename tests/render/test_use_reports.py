"""Reports of use as text, Markdown, JSON and a page: the same facts everywhere, and no name that becomes markup."""

import json
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from reconciler.render.documents import dump
from reconciler.render.use_json import report_document
from reconciler.render.use_sheets import Sheet, breach_sheet, sheets, usage_sheet
from reconciler.render.use_text import headline, report_markdown, report_text
from reconciler.usage.findings import Simulation
from reconciler.usage.reports import UsageReport
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
def test_every_part_of_a_report_is_told_in_every_format(make) -> None:
    text = make(whole_report())
    for title in (one.title for one in sheets(whole_report())):
        assert title in text
    plain = text.replace("&#61;", "=")
    assert [one for one in FACTS if one not in plain] == []
    assert "one day is missing" in text


def test_a_refusal_by_a_little_shows_the_difference() -> None:
    (breach,) = SIMULATION.breaches
    narrow = replace(breach, breach=replace(breach.breach, found_ms=60_900, allowed_ms=60_000))
    (cells,) = breach_sheet(replace(SIMULATION, breaches=(narrow,))).rows
    assert cells[-2:] == ("1 min 900 ms", "1 min")


def test_rows_that_are_left_out_are_counted_everywhere() -> None:
    report = replace(whole_report(), usage=(USAGE,) * 60)
    assert "and 12 more rows" in report_text(report)
    assert "and 22 more rows" in report_markdown(report, most=50)
    assert "and 12 more rows" in page(report)


def test_the_first_sentence_says_what_was_found() -> None:
    assert (
        headline(whole_report())
        == "5 buckets on brokers: 1 gets worse, 1 cannot be told; the policy refuses 1 figure"
    )
    assert headline(UsageReport()) == "nothing was recorded"
    empty = Simulation(evidence=(EVIDENCE,), rows=())
    assert (
        headline(UsageReport(simulation=empty)) == "no limit that recorded use can speak of changes"
    )
    assert headline(UsageReport(usage=(USAGE,), left_out={"usage_row": 2})) == "3 buckets in use"


def test_evidence_that_does_not_count_is_said_first() -> None:
    stale = replace(EVIDENCE, stale="the newest sample is 5 d old")
    report = UsageReport(evidence=(stale,), simulation=replace(SIMULATION, evidence=(stale,)))
    assert headline(report) == "no evidence counts: the newest sample is 5 d old"
    assert not report.simulation.enough


def test_parts_without_rows_are_not_shown() -> None:
    assert [one.name for one in sheets(UsageReport(evidence=(EVIDENCE,)))] == ["evidence"]


def test_a_figure_that_is_not_known_is_no_zero() -> None:
    text = page(whole_report())
    assert ">not known</text>" in text
    assert ">≥ 30 min a day</text>" in text


def test_a_percentile_that_is_not_known_is_not_called_no_limit() -> None:
    unknown = replace(USAGE, limit_units=None, p50_units=None, p95_units=None, p99_units=None)
    (row,) = usage_sheet([unknown]).rows
    assert row[4] == "no limit"
    assert row[6:9] == ("-", "-", "-")


def test_a_sheet_with_a_crooked_row_cannot_be_built() -> None:
    with pytest.raises(ValueError, match="as many cells"):
        Sheet(name="x", title="x", says="x", heads=("a", "b"), rows=(("1",),))


def test_json_has_every_column_of_every_row() -> None:
    document = json.loads(dump(report_document(whole_report())))
    assert (document["kind"], document["format"]) == ("kquota-use", 1)
    (first, _) = document["simulation"]["rows"]
    assert first["user"] == "etl"
    assert first["after_throttled_ms"] == IMPACT.after_throttled_ms
    assert document["recommendations"][0]["rules"] == ["cut"]
    assert document["curves"][0]["points"][0] == [EVIDENCE.from_ms, 6 * 2**20, 9 * 2**20]


def test_text_of_hostile_names_keeps_its_lines() -> None:
    text = report_text(hostile_report())
    assert "\u202e" not in text
    assert not [line for line in text.splitlines() if line.lstrip().startswith("::")]


def test_markdown_of_hostile_names_is_no_markup() -> None:
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


def test_a_page_of_hostile_names_has_no_tag_that_another_has_not() -> None:
    hostile, usual = _Tags(), _Tags()
    hostile.feed(page(hostile_report()))
    usual.feed(page(whole_report()))
    assert hostile.found <= usual.found
    assert hostile.found.isdisjoint({"script", "img", "iframe", "a href"})
    assert EVIL not in page(hostile_report())


def test_a_page_carries_no_style_that_its_policy_does_not_allow() -> None:
    assert " style=" not in page(whole_report())
    assert page(whole_report()).count("<style>") == 1
