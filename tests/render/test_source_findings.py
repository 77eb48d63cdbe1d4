"""Findings at lines: sorted, each with a known rule."""

import pytest

from reconciler.render.source_findings import SourceFinding


def test_an_unknown_rule_is_refused():
    with pytest.raises(ValueError, match="not a known rule"):
        SourceFinding(path="", line=0, column=0, rule="other", message="m")
