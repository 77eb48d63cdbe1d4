"""Long lists on a terminal: cut before their rows are built, with the total count, and complete on request."""

from msgspec.structs import replace

from reconciler.quota.entity import entity
from reconciler.quota.outcome import Rejected
from reconciler.quota.planner.plan import Finding, QuotaChange
from reconciler.quota.policy import Action, Cause
from reconciler.quota.results.report import PairOutcome, ValidationResult
from reconciler.render.terminal import SHOWN, SHOWN_TROUBLE, outcome_text, plan_text
from tests.render.previews import RATE, empty, result


def long(causes=(Cause.PRUNE,), *, count=500):
    """A preview of many changes; the last ones have other causes than the first."""
    changes = tuple(
        QuotaChange(
            entity=entity(user=f"u{at:04d}"),
            key=RATE,
            before=None,
            after=4096.0 + at,
            cause=Cause.CREATE,
        )
        for at in range(count - len(causes))
    )
    odd = tuple(
        QuotaChange(entity=entity(user=f"v{at}"), key=RATE, before=5.0, after=None, cause=cause)
        for at, cause in enumerate(causes)
    )
    return replace(empty(), plan=replace(empty().plan, changes=(*changes, *odd)))


def test_a_long_plan_is_shortened_with_a_note_and_complete_counts():
    text = plan_text(long())
    assert "499 to create, 1 to remove on 500 entities" in text
    assert sum(line.startswith("  + ") for line in text.splitlines()) == SHOWN - 1
    assert "  and 400 more (--verbose and --format json show all)\n" in text
    full_text = plan_text(long(), verbose=True)
    assert sum(line.startswith("  + ") for line in full_text.splitlines()) == 499
    assert "more (" not in full_text


def test_removals_are_shown_before_ordinary_changes_in_a_shortened_plan():
    text = plan_text(long([Cause.PRUNE, Cause.PRUNE]))
    assert "user=v0" in text
    assert "user=v1" in text
    assert text.index("user=u0000") < text.index("user=v0"), "the order is that of the plan"


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


def ended(*results):
    pairs = tuple(
        PairOutcome(change=change, result=results[at % len(results)])
        for at, change in enumerate(long(count=3000).plan.changes)
    )
    return replace(result(), pairs=pairs)


def test_failures_are_shown_before_unsent_changes_in_a_shortened_outcome():
    outcome = ended(None, None, Rejected(code=42, name="INVALID_REQUEST", message="no"))
    text = outcome_text(outcome)
    assert text.count("INVALID_REQUEST") == 1000
    assert "NOT SENT" not in text
    assert "and 2,000 more" in text
    assert outcome_text(outcome, verbose=True).count("NOT SENT") == 2000


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
