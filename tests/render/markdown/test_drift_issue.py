"""Drift as an issue: its text changes only with the facts, is bounded, and names are escaped."""

import html
import json
import re
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.codecs.drift import drift_document, read_drift
from reconciler.errors import ConfigError
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
    assert "override by eve until 2025-11-21 12:00 UTC: INC-1 <code>&#64;</code>all" in row
    assert "`kquota override end --expired`" in new_text
    assert expired_report().facts != report(()).facts
    both = text(expired_report(FOUND))
    assert (
        "1 live value different from the last applied value, 1 override expired and still live"
        in both
    )


def report_json() -> dict[str, Any]:
    document = drift_document(FOUND, (EXPIRED,), cluster_id="lkc-1", now=NOW, owned_pairs=3)
    return json.loads(dump(document))


@pytest.mark.parametrize("layout", [json.dumps, dump])
def test_a_report_may_be_laid_out_in_any_way(layout):
    assert read_drift(layout(report_json()), location="drift.json") == expired_report(FOUND)


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda d: d.pop("expiredOverrides"), "an object with the field 'expiredOverrides'"),
        (lambda d: d.pop("recordsKnown"), "an object with the field 'recordsKnown'"),
        (lambda d: d.update(more=1), "the document .* without the unknown field 'more'"),
        (lambda d: d["drift"][0].update(more=1), r"drift\[0\] .* unknown field 'more'"),
        (lambda d: d["drift"][0].update(cause="Fun"), r"drift\[0\]\.cause .* 'Fun'"),
        (lambda d: d["drift"][0].update(since="today"), r"drift\[0\]\.since"),
        (lambda d: d["drift"][0].update(since="2025-11-21T12:00:00"), r"drift\[0\]\.since"),
        (lambda d: d["drift"][0].update(since="0001-01-01T00:00:00+01:00"), r"drift\[0\]: since"),
        (lambda d: d["drift"][0].update(entity=[]), r"drift\[0\]: .*entity"),
        (lambda d: d["expiredOverrides"][0].pop("who"), r"expiredOverrides\[0\] .* field 'who'"),
        (lambda d: d["expiredOverrides"][0].update(live="x"), r"expiredOverrides\[0\]\.live"),
        (
            lambda d: d["expiredOverrides"][0].update(until="9999-12-31T23:59:59-01:00"),
            r"expiredOverrides\[0\]: until",
        ),
    ],
)
def test_an_edited_report_is_refused_with_its_place(edit, words):
    document = report_json()
    edit(document)
    with pytest.raises(ConfigError, match=rf"drift\.json: .*{words}"):
        read_drift(json.dumps(document), location="drift.json")


def test_texts_that_follow_from_facts_are_shown_as_they_follow():
    document = report_json()
    document["drift"][0] |= {"text": "user=mallory", "reason": "all is well"}
    document["expiredOverrides"][0]["text"] = "user=mallory"
    assert read_drift(json.dumps(document), location="drift.json") == expired_report(FOUND)


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
