"""The report on one client in words."""

import re
from dataclasses import replace

import pytest

from reconciler.render.use.client_tables import headline, sheets
from reconciler.render.use.report_text import report_markdown, report_text
from reconciler.usage.impact.result_rows import EvidenceNote
from tests.render.use_reports import HOUR, client_page, page

REPORT = client_page()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {},
            (
                "user=etl,client-id=loader: throttled at 2026-11-18 06:00 UTC on broker 1: produce,"
                " limit 20 MiB/s of user=etl,client-id=loader; requests waited 1.2 s on average"
            ),
        ),
        (
            {"at_ms": REPORT.evidence.from_ms},
            (
                "user=etl,client-id=loader: no throttling was recorded at 2026-11-18 00:00 UTC;"
                " the nearest time is 2026-11-18 05:00 UTC for 2 h"
            ),
        ),
        (
            {"throttled": (), "silent_brokers": ("1", "3")},
            (
                "user=etl,client-id=loader: no throttling was recorded at 2026-11-18 06:00 UTC;"
                " 2 brokers did not answer then"
            ),
        ),
        ({"at_ms": None, "left_out": 2}, "user=etl,client-id=loader: throttled 3 times"),
        ({"at_ms": None, "throttled": ()}, "user=etl,client-id=loader: no throttling was recorded"),
        (
            {"throttled": (), "limits": (replace(REPORT.limits[0], throttled_ms=None),)},
            (
                "user=etl,client-id=loader: no broker recorded throttle times, so whether it was"
                " throttled is not known"
            ),
        ),
        (
            {
                "limits": (),
                "evidence": EvidenceNote(
                    cluster_id="c", stale="the lake has no samples of this cluster in the window"
                ),
            },
            "user=etl,client-id=loader: the lake has no samples of this cluster in the window",
        ),
        (
            {"limits": (), "user": ""},
            (
                "client-id=loader: no broker recorded these names; where limits are for each user and"
                " client id, both names are needed"
            ),
        ),
    ],
)
def test_the_first_sentence_answers_the_question(changes, sentence) -> None:
    assert headline(replace(REPORT, **changes)) == sentence


def test_a_row_has_the_reason_and_what_would_have_avoided_it() -> None:
    row = tuple(cell.text for cell in sheets(REPORT)[0].rows[0])
    assert row == (
        "user=etl,client-id=loader",
        "2026-11-18 05:00 UTC",
        "2 h",
        "1",
        "produce",
        "20 MiB/s",
        "user=etl,client-id=loader",
        "user + client-id",
        "all connections with this user and client id",
        "1.2 s",
        "30 MiB/s",
        "≥ 23 MiB/s",
    )


def test_a_limit_that_no_snapshot_has_is_not_called_no_limit() -> None:
    throttled = replace(REPORT.throttled[0], limit_units=None, source_entity="", level=None)
    limits = replace(
        REPORT.limits[0], is_known=False, limit_units=None, source_entity="", level=None
    )
    unknown = replace(REPORT, throttled=(throttled,), limits=(limits,))
    assert headline(unknown).endswith("produce, limit not known; requests waited 1.2 s on average")
    assert "no limit" not in report_text(unknown)
    late = replace(unknown, throttled=(replace(throttled, snapshot_ms=REPORT.evidence.from_ms),))
    assert "limit not known, set after the snapshot of 2026-" in headline(late)
    between = replace(
        REPORT, throttled=(replace(REPORT.throttled[0], snapshot_ms=REPORT.evidence.from_ms),)
    )
    assert re.search(r"limit 20 MiB/s of \S+, set after the snapshot of 2026-", headline(between))
    unlimited = replace(unknown, limits=(replace(limits, is_known=True),))
    assert [cell.text for cell in sheets(unlimited)[1].rows[0][2:4]] == ["no limit", "no limit"]


def test_every_output_ends_with_the_documents() -> None:
    document = REPORT.patches[0].strip()
    assert report_text(REPORT).strip().endswith(document)
    assert report_markdown(REPORT).strip().endswith(f"```yaml\n{document}\n```")
    assert f"{document}\n</pre>" in page(REPORT)
    without = replace(REPORT, patches=())
    assert "Proposed limits" not in report_text(without) + report_markdown(without) + page(without)


def test_a_short_window_has_times_of_the_day_on_its_axis() -> None:
    curve = replace(REPORT.curves[1], points=((REPORT.evidence.from_ms + HOUR, 5, 9),))
    text = page(replace(REPORT, curves=(curve,)))
    assert ">01:10</text>" in text
