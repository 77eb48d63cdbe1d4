"""SARIF: sorted, with known locations, and with a description of every rule."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.base.escaping import escaped
from reconciler.errors import Problem
from reconciler.render.json_values import dump
from reconciler.render.sarif import RULES, SarifResult, findings_of, plan_findings, sarif_document
from tests.render.previews import sample


def results(*findings: SarifResult) -> list:
    text = dump(sarif_document(findings, tool_version="1.2"))
    return json.loads(text)["runs"][0]["results"]


def test_a_problem_of_a_file_is_at_its_line_and_column():
    findings = findings_of([Problem(path="q/ü a.yaml", line=3, column=7, message="bad \x1b[31m")])
    (result,) = results(*findings)
    place = result["locations"][0]["physicalLocation"]
    assert place == {
        "artifactLocation": {"uri": "q/%C3%BC%20a.yaml"},
        "region": {"startLine": 3, "startColumn": 7},
    }
    assert result["level"] == "error"
    assert result["message"]["text"] == r"bad \u001b\[31m"


def test_an_unknown_line_omits_the_region_and_an_unknown_file_the_location():
    result = SarifResult(path="a", line=0, column=0, rule="guard", message="m")
    nowhere = SarifResult(path="", line=0, column=0, rule="drift", message="m")
    first, second = results(result, nowhere)
    assert "locations" not in first
    assert "region" not in second["locations"][0]["physicalLocation"]


def test_results_are_sorted_by_place_and_refer_to_their_rule():
    late = SarifResult(path="b", line=1, column=0, rule="change", message="m")
    early = SarifResult(path="a", line=9, column=0, rule="removal", message="m")
    new_results = results(late, early)
    assert [result["ruleId"] for result in new_results] == ["removal", "change"]
    assert [list(RULES)[result["ruleIndex"]] for result in new_results] == ["removal", "change"]


def test_a_rule_without_a_description_is_refused():
    with pytest.raises(ValueError, match="not a known rule"):
        SarifResult(path="", line=0, column=0, rule="other", message="m")


def test_a_plan_reports_each_change_and_each_obstacle_under_its_rule():
    new_results = sarif_document(plan_findings(sample()), tool_version="1")["runs"][0]["results"]
    rules = [result["ruleId"] for result in new_results]
    assert {rule: rules.count(rule) for rule in sorted(set(rules))} == {
        "change": 3,
        "drift": 1,
        "guard": 2,
        "rejected": 1,
        "removal": 1,
        "takeover": 1,
        "warning": 1,
    }
    (takeover,) = [result for result in new_results if result["ruleId"] == "takeover"]
    place = takeover["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "quotas/10.yaml"}, "region": {"startLine": 8}}
    assert all(result["message"]["text"].isprintable() for result in new_results)


@given(st.text(alphabet="[]()\\x :/.u", max_size=40))
def test_names_cannot_become_links_in_a_message(name):
    text = f"user=[x](http://evil.example/a) {name}"
    (result,) = results(SarifResult(path="", line=0, column=0, rule="change", message=text))
    message = result["message"]["text"]
    plain = re.sub(r"\\[\[\]\\]", "", message)
    assert "[" not in plain
    assert "]" not in plain
    assert re.sub(r"\\([\[\]\\])", r"\1", message) == escaped(text)
