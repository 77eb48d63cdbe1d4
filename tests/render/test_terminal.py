"""Plans and outcomes on a terminal."""

import re

import pytest
from msgspec.structs import replace

from reconciler.quota.planner.desired_state import DeclarationConflict
from reconciler.quota.policy import Cause
from reconciler.render.table import Style, columns_of
from reconciler.render.terminal import outcome_text, plan_text
from tests.render.previews import ALICE, RATE, declare, empty, golden, result, sample


@pytest.mark.golden
def test_the_text_of_a_plan_equals_the_golden_file():
    golden("plan.txt", plan_text(sample()))


@pytest.mark.golden
def test_the_text_of_an_outcome_equals_the_golden_file():
    golden("outcome.txt", outcome_text(result(), verbose=True))


def test_names_cannot_forge_a_line_or_a_colour():
    for text in (plan_text(sample()), outcome_text(result(), verbose=True)):
        assert all(line.isprintable() for line in text.splitlines())
        assert not any(line.lstrip().startswith("::") for line in text.splitlines())
        assert "##[" not in text
        assert "\u202e" not in text


def test_colour_changes_only_the_colour():
    painted = plan_text(sample(), style=Style(colour=True))
    assert "\x1b[32m+\x1b[0m" in painted
    assert re.sub(r"\x1b\[[0-9;]*m", "", painted) == plan_text(sample())


def test_an_outcome_with_changed_records_only_reports_their_number():
    done = replace(result(), pairs=(), visibility=None, failure="", bookkeeping=3)
    assert outcome_text(done) == "3 records brought up to date.\n"
    assert outcome_text(replace(done, bookkeeping=0)) == "Nothing to do.\n"
    text = outcome_text(replace(done, interrupted=True, recorded=False))
    assert "Interrupted after every change was applied." in text
    assert "Not all results were recorded" in text
    assert "run it again to continue" in outcome_text(replace(result(), interrupted=True))


def test_an_incomplete_outcome_ends_with_every_count():
    assert outcome_text(result()).splitlines()[-1] == (
        "2 applied, 1 rejected, 1 unknown, 1 waiting, 1 not sent"
    )


def test_many_unmanaged_pairs_are_counted_not_listed():
    full = sample()
    (stranger,) = full.plan.unmanaged
    many = replace(full, plan=replace(full.plan, findings=(stranger,) * 25))
    assert "and 15 more (--verbose and --format json show all" in plan_text(many)
    assert plan_text(many, verbose=True).count("client-id=stranger  producer_byte_rate  7000") == 25


def only(kind):
    """The sample plan with only the findings of one cause."""
    full = sample()
    plan = replace(full.plan, changes=(), findings=full.plan.findings_for(kind), in_sync=7)
    return replace(full, plan=plan, impact=None, violations=(), warnings=())


def test_a_plan_with_drift_does_not_state_that_there_is_nothing_to_do():
    text = plan_text(only(Cause.DRIFT))
    assert "Nothing to do" not in text
    assert text.splitlines()[1] == (
        "No limit to write: 1 drifted (changed outside kquota); 2 records to bring up to date;"
        " 7 declared limits in sync."
    )


@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_a_plan_fits_the_terminal_without_loss_of_text(width):
    folded = plan_text(sample(), style=Style(width=width))
    wider = [line.strip() for line in folded.splitlines() if columns_of(line) > width]
    assert all(line.startswith("kafka-client-quotas --") for line in wider)  # a command is whole
    assert "".join(folded.split()) == "".join(plan_text(sample()).split())


def conflicted():
    first, second = (
        declare(ALICE, {RATE: 1.0}, document="a/one"),
        declare(ALICE, {RATE: 2.0}, document="b/\x1b"),
    )
    conflict = DeclarationConflict(entity=ALICE, key=RATE, claims=(first, second))
    return replace(empty(), plan=replace(empty().plan, conflicts=(conflict,)))


def test_a_conflict_names_both_places():
    text = plan_text(conflicted())
    assert "Conflicts (1): nothing can be applied" in text
    assert "    quotas/5.yaml:8 (a/one)\n    quotas/3.yaml:8 (b/\\u001b)\n" in text
