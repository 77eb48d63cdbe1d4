"""Rows are built once and are the same in every format."""

from msgspec.structs import replace

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
