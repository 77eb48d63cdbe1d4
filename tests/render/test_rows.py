"""Rows are built once and are the same in every format."""

import pytest
from msgspec.structs import replace

from reconciler.quota.planner.effects import Direction
from reconciler.quota.policy import Cause
from reconciler.quota.results.report import ValidationResult
from reconciler.render import plan_summary, rows
from reconciler.render.markdown.plan import plan_markdown
from reconciler.render.terminal import plan_text
from tests.render.previews import empty, sample


@pytest.mark.parametrize(
    ("verdict", "line"),
    [
        (
            ValidationResult(source="broker"),
            "Plan for prod (cluster id lkc-1), validated by the broker",
        ),
        (
            ValidationResult(source="sandbox 3.9", reason="no right"),
            "Plan for prod (cluster id lkc-1), validated by the rules of the sandbox 3.9, not by the broker (no right)",
        ),
        (
            ValidationResult(source="none"),
            "Plan for prod (cluster id lkc-1), not validated by a broker",
        ),
    ],
)
def test_the_headline_names_the_validator(verdict, line):
    assert plan_summary.headline(replace(sample(), verdict=verdict)) == line


def test_the_headline_contains_the_age_of_a_snapshot():
    old = replace(sample(), snapshot_at=sample().created_at - 7200)
    nowhere = replace(sample(), plan=replace(sample().plan, cluster_id=""))
    assert plan_summary.headline(nowhere).startswith("Plan for prod (cluster id unknown), ")
    assert plan_summary.headline(old).endswith(", computed from a snapshot that is 2 h old")


@pytest.mark.parametrize(
    ("factor", "text"),
    [
        (0.0001, "tightened to 0.01 %"),
        (1e-9, "tightened to less than 0.01 %"),
        (0.0, "tightened to 0 %"),
        (0.5, "tightened -50 %"),
    ],
)
def test_a_limit_that_is_left_is_not_said_to_be_gone(factor, text):
    assert rows.by_how_much(Direction.TIGHTENED, factor) == text


def test_a_plan_that_waits_for_the_end_of_an_override_has_something_to_do():
    plan = sample().plan
    waiting = replace(empty(), plan=replace(empty().plan, pending=plan.changes[:1]))
    assert plan_summary.summary(waiting).startswith("No limit to write: 1 under temporary limits;")
    text = plan_markdown(waiting)
    assert "; 1 under temporary limits; " in text
    assert "Under a temporary limit: " in text
    assert "Declared under temporary limits (1)" in plan_text(waiting)
    assert "Nothing to do" not in plan_markdown(waiting)
    assert not waiting.is_quiet


def test_what_is_written_at_the_end_of_a_temporary_limit_is_listed_once():
    """It stays in the digest as pending, and is shown with the changes only."""
    (pending,) = sample().plan.changes[:1]
    ended = replace(pending, cause=Cause.ENDED, before=1.0)
    ending = replace(empty(), plan=replace(empty().plan, changes=(ended,), pending=(pending,)))
    assert "under temporary limits" not in plan_summary.summary(ending)
    assert "Declared under temporary limits" not in plan_text(ending)
    text = plan_markdown(ending)
    assert "Under a temporary limit" not in text
    assert "under temporary limits" not in text
    another = replace(ended, after=7.0)
    later = replace(ending, plan=replace(ending.plan, changes=(another,)))
    assert "1 under temporary limits" in plan_summary.summary(later)
