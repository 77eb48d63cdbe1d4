"""Plans and outcomes on a terminal."""

import re
from dataclasses import replace

import pytest

from reconciler.quota.desired import Conflict
from reconciler.render.table import Style
from reconciler.render.text import outcome_text, plan_text
from tests.render.previews import ALICE, RATE, declare, empty, golden, result, sample


@pytest.mark.golden
def test_the_text_of_a_plan():
    golden("plan.txt", plan_text(sample()))


@pytest.mark.golden
def test_the_text_of_an_outcome():
    golden("outcome.txt", outcome_text(result(), verbose=True))


def test_nothing_in_a_name_forges_a_line_or_a_colour():
    for text in (plan_text(sample()), outcome_text(result(), verbose=True)):
        assert all(line.isprintable() for line in text.splitlines())
        assert not any(line.lstrip().startswith("::") for line in text.splitlines())
        assert "##[" not in text
        assert "\u202e" not in text


def test_colour_changes_nothing_but_colour():
    painted = plan_text(sample(), style=Style(colour=True))
    assert "\x1b[32m+\x1b[0m" in painted
    assert re.sub(r"\x1b\[[0-9;]*m", "", painted) == plan_text(sample())


def test_an_empty_plan_says_so_in_two_lines():
    assert plan_text(empty()) == (
        "Plan for cluster lkc-1, not validated by a broker (there is nothing to validate)\n"
        "Nothing to do: 7 declared limits in sync.\n"
    )


def test_what_went_well_is_only_counted():
    text = outcome_text(result())
    assert "visible\n" in text
    assert "APPLIED" in text  # the one that another writer changed
    assert len(outcome_text(result(), verbose=True).splitlines()) > len(text.splitlines())


def test_the_text_says_that_limits_hold_per_broker():
    assert "Limits hold per broker" in plan_text(sample())


def conflicted():
    one, other = (
        declare(ALICE, {RATE: 1.0}, document="a/one"),
        declare(ALICE, {RATE: 2.0}, document="b/\x1b"),
    )
    conflict = Conflict(entity=ALICE, key=RATE, claims=(one, other))
    return replace(empty(), plan=replace(empty().plan, conflicts=(conflict,)))


def test_a_conflict_names_both_places():
    text = plan_text(conflicted())
    assert "Conflicts (1): nothing can be applied" in text
    assert "    quotas/5.yaml:8 (a/one)\n    quotas/3.yaml:8 (b/\\u001b)\n" in text


def test_only_records_that_changed_are_told_as_such():
    done = replace(result(), pairs=(), visibility=None, failure="", bookkeeping=3)
    assert outcome_text(done) == "3 records brought up to date.\n"
    assert outcome_text(replace(done, bookkeeping=0)) == "Nothing to do.\n"
    told = outcome_text(replace(done, interrupted=True, recorded=False))
    assert "Stopped as asked" in told
    assert "on record" in told


def test_many_unmanaged_pairs_are_counted_not_listed():
    full = sample()
    (stranger,) = full.plan.unmanaged
    many = replace(full, plan=replace(full.plan, findings=(stranger,) * 25))
    assert "and 15 more (--verbose shows all" in plan_text(many)
    assert plan_text(many, verbose=True).count("client-id=stranger  producer_byte_rate  7000") == 25
