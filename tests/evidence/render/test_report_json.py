"""Reports of `recommend` read back as they were written; other files are refused."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.errors import ConfigError
from reconciler.evidence.render.report_json import read_recommendations, report_document
from reconciler.render.json_values import dump
from reconciler.usage.recommendation.limit_sizes import Advice, SizingRule
from reconciler.usage.reports.usage import UsageReport
from reconciler.usage.samples import QuotaType
from reconciler.usage.tags import bucket_of
from tests.hypothesis_profiles import count_examples
from tests.render.use_reports import EVIDENCE, EVIL, RECOMMENDATION, whole_report

REPORT = UsageReport(
    evidence=(replace(EVIDENCE, partial=("3 days are missing",)),),
    recommendations=(
        RECOMMENDATION,
        replace(RECOMMENDATION, bucket=bucket_of(EVIL), advice=Advice.REFUSED, target_units=None),
    ),
    left_out={"recommendation": 7},
    notes=(EVIL,),
)
UNITS = st.none() | st.integers(0, 2**60)


def read(document: object) -> UsageReport:
    return read_recommendations(json.dumps(document), location="r.json")


def test_a_report_is_read_as_it_was_written() -> None:
    assert read_recommendations(dump(report_document(REPORT)), location="r.json") == REPORT


@settings(max_examples=count_examples(80))
@given(st.data())
def test_every_row_is_read_back(data: st.DataObject) -> None:
    row = replace(
        RECOMMENDATION,
        bucket=bucket_of(data.draw(st.text(max_size=9)), data.draw(st.text(max_size=9))),
        quota_type=data.draw(st.sampled_from(QuotaType)),
        advice=data.draw(st.sampled_from(Advice)),
        rules=tuple(data.draw(st.lists(st.sampled_from(SizingRule), max_size=3))),
        current_units=data.draw(UNITS),
        target_units=data.draw(UNITS),
        test_share_ppm=data.draw(UNITS),
    )
    report = UsageReport(evidence=(EVIDENCE,), recommendations=(row,))
    assert read(report_document(report)) == report


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("kind", "kquota-plan", "not a kquota-use document"),
        ("format", 2, "its format is 2"),
        ("headline", "all is well", "headline"),
        ("extra", 1, "unknown field 'extra'"),
        ("usage", [1], "usage"),
        ("simulation", {}, "simulation"),
        ("notes", [1], "notes[0] should be a string"),
        ("left_out", {"recommendation": -1}, "a whole number from 0"),
        ("recommendations.0.advice", "apply", "recommendations[0].advice should be one of"),
        ("recommendations.0.target_units", "5", "recommendations[0].target_units"),
        ("recommendations.0.samples", None, "recommendations[0].samples"),
        ("recommendations.0.more", 1, "unknown field 'more'"),
        ("evidence.0.coverage_ppm", True, "evidence[0].coverage_ppm"),
    ],
)
def test_an_edited_report_is_refused_with_its_place(path: str, value: object, words: str) -> None:
    document = json.loads(dump(report_document(REPORT)))
    *steps, last = path.split(".")
    inner = document
    for step in steps:
        inner = inner[int(step) if step.isdigit() else step]
    inner[last] = value
    with pytest.raises(ConfigError) as error:
        read(document)
    assert words in str(error.value)
    assert "r.json" in str(error.value)


def test_a_report_of_another_command_and_a_truncated_one_are_refused() -> None:
    with pytest.raises(ConfigError):
        read(report_document(whole_report()))
    text = dump(report_document(REPORT))
    with pytest.raises(ConfigError, match="not a complete JSON document"):
        read_recommendations(text[: len(text) // 2], location="r.json")
