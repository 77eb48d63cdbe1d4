"""Drift as an issue: its text changes only with the facts, is bounded, and names are escaped."""

import html
import re

import pytest
from msgspec.structs import replace

from reconciler.codecs.drift import drift_document, read_drift
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.overrides import Override
from reconciler.quota.policy import Cause
from reconciler.quota.results.report import ExpiredOverride
from reconciler.render.json_values import dump
from reconciler.render.markdown.drift_issue import issue_markdown, issue_title, recovered_markdown
from tests.render.previews import EVIL, NOW, sample

FOUND = sample().plan.findings_for(Cause.DRIFT)


def report(findings=FOUND, *, now=NOW, cluster="lkc-1"):
    return read_drift(
        dump(drift_document(findings, cluster_id=cluster, now=now)), location="drift.json"
    )


def text(drift_report, *, limit=65_536) -> str:
    return issue_markdown(
        drift_report, head="<!-- x -->", limit_characters=limit, details="[run](https://x)"
    )


def test_the_issue_shows_the_applied_value_the_live_value_and_the_start_of_drift():
    new_text = text(report())
    assert "`user=drifted`" in new_text
    assert "2048 (2 KiB/s)" in new_text
    assert "77 B/s" in html.unescape(new_text)
    assert "2025-11-21T10:00:00Z" in new_text
    assert "Cluster `lkc-1`: 1 live value different from the last applied value" in new_text


@pytest.mark.parametrize(
    ("records_known", "sentence"),
    [
        (True, "no drift"),
        (False, "there are no ownership records, so drift cannot be determined"),
    ],
)
def test_a_summary_without_drift_says_so_and_has_no_table(records_known, sentence):
    document = drift_document((), cluster_id="lkc-1", now=NOW, records_known=records_known)
    new_text = text(read_drift(dump(document), location="drift.json"))
    assert f"**Cluster `lkc-1`: {sentence}.**" in new_text
    assert "|" not in new_text
    assert "--correct-drift" not in new_text


EXPIRED = ExpiredOverride(
    override=Override(
        entity=entity(user="z"),
        key=Key.PRODUCER_BYTE_RATE,
        value=4096.0,
        until=NOW,
        author="eve",
        reason="INC-1 @all",
    ),
    expected=None,
    live=4096.0,
    document="",
)


def expired_report(findings=()):
    document = drift_document(findings, (EXPIRED,), cluster_id="lkc-1", now=NOW)
    return read_drift(dump(document), location="drift.json")


def test_an_expired_override_is_a_row_of_the_issue_and_a_fact():
    new_text = text(expired_report())
    assert "Cluster `lkc-1`: 1 override expired and still live" in new_text
    (row,) = [line for line in new_text.splitlines() if line.startswith("| `user=z`")]
    assert "4096 (4 KiB/s)" in row
    assert "override by eve: INC-1 <code>&#64;</code>all" in row
    assert "`kquota override end --expired`" in new_text
    assert expired_report().facts != report(()).facts
    both = text(expired_report(FOUND))
    assert (
        "1 live value different from the last applied value, 1 override expired and still live"
        in both
    )


def test_a_report_of_an_earlier_version_has_no_expired_overrides():
    document = drift_document((), (EXPIRED,), cluster_id="lkc-1", now=NOW)
    del document["expiredOverrides"]
    assert read_drift(dump(document), location="drift.json").table.rows == ()


def test_the_facts_do_not_depend_on_the_time_or_the_age():
    later = [replace(finding, since=NOW) for finding in FOUND]
    assert report(later, now=NOW + 3600).facts == report().facts
    changed_findings = [replace(finding, live=78.0) for finding in FOUND]
    assert report(changed_findings).facts != report().facts


def test_names_cannot_be_a_mention_a_tag_or_markup():
    evil = [replace(FOUND[0], entity=EVIL)]
    new_text = text(report(evil, cluster="@all <b>")) + recovered_markdown(report(), details="")
    outside = html.unescape(re.sub(r"<code>.*?</code>", "", re.sub(r"`[^`\n]*`", "", new_text)))
    assert not re.search(r"[@#~$]\w|<b(?!r>)", outside)
    assert "\u202e" not in new_text
    assert "\n" not in issue_title("a\nb\u202e", report())


@pytest.mark.parametrize("limit", [1500, 10_000, 65_536])
def test_the_issue_stays_within_the_limit_and_counts_omitted_rows(limit):
    many = [replace(FOUND[0], entity=entity(user=f"user-{at}")) for at in range(1500)]
    new_text = text(report(many), limit=limit)
    assert len(new_text) <= limit
    rows = sum(line.startswith("| `user=") for line in new_text.splitlines())
    assert f"… and {1500 - rows:,} rows more." in new_text


def test_ignored_drift_is_not_in_the_issue():
    ignored = replace(
        FOUND[0], entity=entity(user="canary"), ignored=True, note="ignored: it sets its own"
    )
    new_report = report([*FOUND, ignored])
    assert new_report.findings == report().findings
    assert new_report.facts == report().facts
