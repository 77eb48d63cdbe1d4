"""Findings at lines: sorted, each with a known rule."""

from collections import Counter

import pytest

from reconciler.errors import Problem
from reconciler.render.source_findings import SourceFinding, findings_of, plan_findings
from tests.render.previews import sample


def test_a_problem_of_a_file_is_at_its_line_and_column():
    (finding,) = findings_of([Problem(path="q/a.yaml", line=3, column=7, message="bad")])
    assert (finding.path, finding.line, finding.column, finding.rule) == (
        "q/a.yaml",
        3,
        7,
        "manifest",
    )


def test_an_unknown_rule_is_refused():
    with pytest.raises(ValueError, match="not a known rule"):
        SourceFinding(path="", line=0, column=0, rule="other", message="m")


def test_a_plan_reports_each_change_and_each_obstacle_under_its_rule():
    findings = plan_findings(sample())
    assert list(findings) == sorted(findings)
    assert Counter(finding.rule for finding in findings) == {
        "change": 3,
        "drift": 1,
        "guard": 2,
        "rejected": 1,
        "removal": 1,
        "takeover": 1,
        "warning": 1,
    }
    (takeover,) = [finding for finding in findings if finding.rule == "takeover"]
    assert (takeover.path, takeover.line) == ("quotas/10.yaml", 8)
