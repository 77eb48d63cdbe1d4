"""Plans as comments: no name is markup, tables fold, the limit holds, and what is missing is told."""

import html
import re
from dataclasses import replace

import pytest

from reconciler.quota.change import Change
from reconciler.quota.desired import Conflict
from reconciler.quota.entity import entity
from reconciler.quota.policy import Cause
from reconciler.render.markdown import outcome_markdown, plan_markdown
from tests.render.previews import ALICE, RATE, declare, empty, golden, result, sample


def long(count: int):
    changes = tuple(
        Change(
            entity=entity(user=f"user-{i:05}"), key=RATE, before=None, after=5.0, cause=Cause.CREATE
        )
        for i in range(count)
    )
    return replace(empty(), plan=replace(empty().plan, changes=changes))


@pytest.mark.golden
def test_the_comment_of_a_plan():
    golden("plan.md", plan_markdown(sample(), title="prod | @all", marker="<!-- kquota prod -->"))


@pytest.mark.golden
def test_the_comment_of_an_outcome():
    golden("outcome.md", outcome_markdown(result()))


def test_every_table_row_has_as_many_cells_as_its_head():
    lines = plan_markdown(sample()).splitlines()
    rows = [line for line in lines if line.startswith("|")]
    assert len(rows) > 6
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in rows} == {10}


def test_no_name_is_a_mention_a_tag_or_markup():
    text = plan_markdown(sample(), title="@all <b> #12 !3") + outcome_markdown(result())
    outside = re.sub(r"<code>.*?</code>", "", re.sub(r"`[^`\n]*`", "", text))
    seen = html.unescape(outside)
    assert not re.search(r"[@#!~$]\w", seen)
    assert "\u202e" not in text
    assert "://" not in outside
    assert "<b>" not in outside
    assert set(re.findall(r"</?([a-z]+)", outside)) <= {"details", "summary", "sub"}


def test_a_short_table_is_open_and_a_long_one_is_folded():
    assert "<details>" not in plan_markdown(long(25))
    assert "<details><summary>26 changes</summary>" in plan_markdown(long(26))


@pytest.mark.parametrize("limit", [1500, 4000, 20_000, 65_536])
def test_the_limit_holds_and_the_missing_rows_are_counted(limit):
    asked: list[int] = []

    def cut(missing: int) -> str:
        asked.append(missing)
        return f"{missing} rows are in the [full text](https://example.org)."

    text = plan_markdown(long(2000), limit=limit, cut=cut)
    assert len(text) <= limit
    shown = text.count("user-")
    assert f"{2000 - shown} rows are in the" in text
    assert text.count("<details>") == text.count("</details>")


def test_what_fits_is_not_cut():
    assert "more; the JSON plan" not in plan_markdown(long(100))
    assert plan_markdown(long(100)).count("user-") == 100


def test_an_empty_plan_is_short():
    text = plan_markdown(empty())
    assert "Nothing to do" in text
    assert "|" not in text


def test_a_conflict_stands_before_everything_else():
    one, other = (
        declare(ALICE, {RATE: 1.0}, document="a/one"),
        declare(ALICE, {RATE: 2.0}, document="b/two"),
    )
    conflict = Conflict(entity=ALICE, key=RATE, claims=(one, other))
    text = plan_markdown(replace(empty(), plan=replace(empty().plan, conflicts=(conflict,))))
    assert "- `user=alice` `producer_byte_rate`: `quotas/5.yaml:8`, `quotas/5.yaml:8`" in text
