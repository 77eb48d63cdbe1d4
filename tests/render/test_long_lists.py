"""Long lists on a terminal: cut before their rows are built, with the total count, and complete on request."""

from msgspec.structs import replace

from reconciler.quota.entity import entity
from reconciler.quota.outcome import Rejected
from reconciler.quota.planner.plan import Finding
from reconciler.quota.policy import Action, Cause
from reconciler.quota.results.report import ValidationResult
from reconciler.render.terminal import SHOWN, SHOWN_TROUBLE, plan_text
from tests.render.previews import RATE, empty


def test_a_long_section_is_shortened_and_its_heading_counts_everything():
    findings = tuple(
        Finding(
            entity=entity(user=f"u{at:04d}"),
            key=RATE,
            desired=5.0,
            applied=5.0,
            live=6.0,
            cause=Cause.DRIFT,
            action=Action.REPORT,
        )
        for at in range(SHOWN + 7)
    )
    preview = replace(empty(), plan=replace(empty().plan, findings=findings))
    assert f"({SHOWN + 7})\n" in plan_text(preview)
    assert "  and 7 more (--verbose" in plan_text(preview)
    assert f"user=u{SHOWN + 6:04d}" in plan_text(preview, verbose=True)


def test_refusals_and_violations_have_a_larger_bound():
    refused = {
        entity(user=f"u{at}"): Rejected(code=42, name="INVALID_REQUEST", message="no")
        for at in range(SHOWN_TROUBLE + 5)
    }
    preview = replace(empty(), verdict=ValidationResult(source="broker", rejections=refused))
    text = plan_text(preview)
    assert f"The broker would refuse ({SHOWN_TROUBLE + 5})" in text
    assert text.count("INVALID_REQUEST") == SHOWN_TROUBLE
    assert "and 5 more" in text
    assert plan_text(preview, verbose=True).count("INVALID_REQUEST") == SHOWN_TROUBLE + 5
