"""Rows are built once and are the same in every format."""

from msgspec.structs import replace

from reconciler.quota.policy import Cause
from reconciler.render import plan_summary
from reconciler.render.markdown.plan import plan_markdown
from reconciler.render.terminal import plan_text
from tests.render.previews import empty, sample


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
