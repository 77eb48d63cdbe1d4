"""Plans and outcomes as comments: one screen, escaped names, and no quotas outside of the plan."""

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler import DOCUMENTATION
from reconciler.quota.entity import entity
from reconciler.quota.planner.desired_state import DeclarationConflict, merge
from reconciler.quota.planner.permitted_plan import NOTE_ORPHAN
from reconciler.quota.planner.plan import Finding, QuotaChange
from reconciler.quota.policy import Action, Cause
from reconciler.quota.results.report import PairOutcome, PairVisibility, RunOrigin, ValidationResult
from reconciler.quota.rule_warnings import warnings
from reconciler.quota.state import Applied
from reconciler.render.cause_text import sections
from reconciler.render.markdown.comment import GITHUB_LIMIT, CommentContext
from reconciler.render.markdown.outcome import outcome_markdown
from reconciler.render.markdown.plan import plan_markdown
from tests.render.previews import ALICE, RATE, declare, empty, golden, result, sample

PAGE = CommentContext(
    label="prod",
    marker="<!-- kquota prod -->",
    commit="0123456789abcdef0123",
    run_url="https://ci.example/run/1",
    artifact_url="https://ci.example/run/1/artifacts/2",
)


def long(count: int):
    changes = tuple(
        QuotaChange(
            entity=entity(user=f"user-{i:05}"), key=RATE, before=None, after=5.0, cause=Cause.CREATE
        )
        for i in range(count)
    )
    return replace(empty(), plan=replace(empty().plan, changes=changes))


def ready():
    """One change without a problem."""
    plan = long(1)
    return replace(plan, verdict=ValidationResult(source="broker"))


def foreign_finding(number: int) -> Finding:
    return Finding(
        entity=entity(user=f"stranger-{number}"),
        key=RATE,
        desired=None,
        applied=None,
        live=5.0,
        cause=Cause.UNMANAGED,
        action=Action.REPORT,
    )


def rows(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("| ") and "<br>" in line]


@pytest.mark.golden
def test_the_comment_of_a_plan_equals_the_golden_file():
    golden("plan.md", plan_markdown(sample(), context=replace(PAGE, title="prod | @all")))


@pytest.mark.golden
def test_the_comment_of_an_outcome_equals_the_golden_file():
    golden("outcome.md", outcome_markdown(result(), context=PAGE))


# ---- the verdict line ----------------------------------------------------------------------------


def test_a_label_that_is_not_the_name_of_the_cluster_is_shown_beside_it():
    text = plan_markdown(ready(), context=CommentContext(label="eu"))
    assert "### ✅ Ready: Kafka quotas of prod (eu)\n" in text
    by_address = replace(ready(), origin=RunOrigin())
    assert "### ✅ Ready: Kafka quotas of cluster lkc-1\n" in plan_markdown(by_address)


def test_a_plan_without_a_contacted_cluster_is_not_ready():
    plan = ready()
    offline = replace(plan, plan=replace(plan.plan, cluster_id=""))
    text = plan_markdown(offline)
    assert "⚠️" in text
    assert "No cluster was contacted" in text
    assert "it is not bound to a cluster" in text


def test_a_conflict_is_a_refusal_above_the_table():
    claims = (
        declare(ALICE, {RATE: 1.0}, document="a/one"),
        declare(ALICE, {RATE: 2.0}, document="b/two"),
    )
    conflict = DeclarationConflict(entity=ALICE, key=RATE, claims=claims)
    text = plan_markdown(replace(empty(), plan=replace(empty().plan, conflicts=(conflict,))))
    assert "### ⛔ Refused" in text
    assert (
        "- `user=alice` `producer_byte_rate` is declared more than once: `quotas/5.yaml:8`, `quotas/5.yaml:8`"
        in text
    )


def test_a_list_of_reasons_has_at_most_ten_lines_and_a_count():
    text = plan_markdown(replace(ready(), warnings=tuple(f"warning {at}" for at in range(14))))
    assert text.count("- warning") == 10
    assert "- … and 4 more" in text


def test_a_limit_that_a_deleted_document_leaves_needs_attention_unless_it_asked_for_that():
    (by_request,) = sections(sample().plan)["released"]
    by_mistake = replace(by_request, note=NOTE_ORPHAN)
    texts = [
        plan_markdown(replace(ready(), plan=replace(ready().plan, findings=(finding,))))
        for finding in (by_mistake, by_request)
    ]
    assert ["### ⚠️ Needs attention" in text for text in texts] == [True, False]
    assert "This change deletes the document `team/kept`; its limit of " in texts[0]
    assert "**Only counted here**: left alone 1." in texts[1]


# ---- the table -----------------------------------------------------------------------------------


def test_a_row_is_narrow_enough_for_a_phone():
    """40 characters of a table fit on a phone of 360 points width; cells break lines at blanks."""
    for row in rows(plan_markdown(ready())):
        cells = [re.split(r"<br>| ", part.strip()) for part in row.strip("|").split(" | ")]
        longest = [max(len(word.strip("`")) for word in part) for part in cells]
        assert sum(longest) <= 40


def test_every_row_has_as_many_cells_as_the_header():
    lines = [line for line in plan_markdown(sample()).splitlines() if line.startswith("|")]
    assert len(lines) == 8
    assert {line.count("|") for line in lines} == {5}


def test_at_most_25_changes_are_listed_and_the_rest_is_counted():
    assert "more change" not in plan_markdown(long(25))
    text = plan_markdown(long(200))
    assert len(rows(text)) == 25
    assert "… and 175 more changes. The plan document lists all of them." in text
    assert "The HTML page lists all of them." in plan_markdown(long(200), context=PAGE)
    assert len(rows(plan_markdown(long(200), max_rows=None))) == 200


@pytest.mark.parametrize("limit", [1500, 4000, 20_000, 65_536])
def test_the_limit_is_kept_and_the_omitted_rows_are_counted(limit):
    text = plan_markdown(long(2000), limit=limit, max_rows=None)
    assert len(text) <= limit
    assert f"… and {2000 - text.count('user-'):,} more changes" in text


# ---- what is about others ------------------------------------------------------------------------


def test_foreign_quotas_are_counted_and_never_listed():
    plan = ready()
    strangers = tuple(foreign_finding(number) for number in range(300))
    text = plan_markdown(replace(plan, plan=replace(plan.plan, findings=strangers)), context=PAGE)
    assert "stranger" not in text
    assert "**Only counted here**: not managed by kquota 300." in text
    assert len(text) < 4000


@given(st.integers(0, 40_000), st.sampled_from("a`<é\u202e"))
def test_names_of_clients_never_push_the_plan_out_of_a_comment(length: int, character: str):
    """A quota of a long name could otherwise hide every later plan."""
    full = sample()
    assert full.impact is not None
    many = tuple(
        replace(affected, principal=replace(affected.principal, user=character * length + str(at)))
        for at, affected in enumerate(full.impact.affected * 15)
    )
    text = plan_markdown(replace(full, impact=replace(full.impact, affected=many)))
    assert len(text) <= GITHUB_LIMIT
    assert "| Client and key |" in text
    assert "**Clients with a different limit**: " in text


def test_warnings_about_documents_that_the_pull_request_does_not_change_are_counted():
    claims = [
        declare(entity(user=f"{name}-*"), {RATE: 5.0}, document=f"team/{name}")
        for name in ("mine", "theirs", "known")
    ]
    claims[2] = replace(claims[2], accepted=(("wildcard", "a literal name"),))
    proposal = replace(
        ready(), advice=warnings(merge(claims)), changed_documents=frozenset({"team/mine"})
    )
    text = plan_markdown(proposal)
    assert "user 'mine-&#42;': Kafka has no wildcards" in text
    assert "theirs" not in text
    assert "**Only counted here**: warnings about other documents 1, accepted warnings 1." in text
    assert "### ⚠️ Needs attention" in text
    calm = plan_markdown(replace(proposal, changed_documents=frozenset()))
    assert "### ✅ Ready" in calm
    assert "warnings about other documents 2" in calm


# ---- the last lines ------------------------------------------------------------------------------


def test_a_cluster_name_with_shell_characters_is_in_no_command():
    odd = replace(ready(), origin=RunOrigin(cluster="x; rm -rf ~"))
    assert "kquota plan" not in plan_markdown(odd)


# ---- an outcome ----------------------------------------------------------------------------------


def applied(count: int = 2):
    changes = long(count).plan.changes
    pairs = tuple(
        PairOutcome(change=change, result=Applied(), visibility=PairVisibility.VISIBLE)
        for change in changes
    )
    return replace(result(), pairs=pairs, failure="")


def test_failed_changes_are_listed_first_and_change_the_verdict():
    partly = applied(200)
    lost = replace(partly.pairs[-1], result=None, visibility=PairVisibility.UNCHECKED)
    partly = replace(partly, pairs=(*partly.pairs[:-1], lost))
    text = outcome_markdown(partly)
    assert "### ⚠️ Applied in part" in text
    assert "| `user=user-00199`<br>`producer_byte_rate` | no limit | 5 B/s | NOT SENT |" in text
    assert len(rows(text)) == 25
    none = replace(partly, pairs=(lost,))
    assert "### ⛔ Not applied" in outcome_markdown(none)
    assert "Undo" not in outcome_markdown(none)


# ---- markup --------------------------------------------------------------------------------------


def test_names_cannot_be_a_mention_a_tag_or_markup():
    odd = CommentContext(title="@all <b> #12 !3")
    text = plan_markdown(sample(), context=odd) + outcome_markdown(result(), context=odd)
    outside = re.sub(r"<code>.*?</code>", "", re.sub(r"`[^`\n]*`", "", text))
    outside = outside.replace(f"{DOCUMENTATION}/policy.md", "")
    visible_text = html.unescape(re.sub(r"(?m)^### ", "", outside))
    assert not re.search(r"[@#!~$]\w", visible_text)
    assert "\u202e" not in text
    assert "://" not in outside
    assert "<b>" not in outside
    assert set(re.findall(r"</?([a-z]+)", outside)) <= {"br", "sub"}


def test_the_text_is_readable_without_a_renderer():
    text = plan_markdown(replace(ready(), warnings=("producer_byte_rate: 5 -> 10 (x2)",)))
    assert "- producer_byte_rate: 5 -> 10 (x2)" in text
    assert "&#" not in text


def test_an_outcome_shows_changes_author_commit_and_the_undo_command():
    text = outcome_markdown(applied(), context=PAGE)
    assert "### ✅ Applied: Kafka quotas of prod\n" in text
    assert (
        "**2 of 2 changes applied and shown by the brokers** by `ci` at commit `0123456789ab` on 2025-11-21T12:00:02Z."
        in text
    )
    assert "| `user=user-00001`<br>`producer_byte_rate` | no limit | 5 B/s | applied |" in text
    assert "**Undo**: `kquota rollback outcome.json --cluster prod`" in text
    assert "[`outcome.json`](https://ci.example/run/1/artifacts/2)" in text


def test_removals_are_listed_before_changes_without_a_remark():
    plan = long(200)
    gone = replace(plan.plan.changes[-1], before=5.0, after=None, cause=Cause.PRUNE)
    plan = replace(plan, plan=replace(plan.plan, changes=(*plan.plan.changes[:-1], gone)))
    assert "user-00199" in plan_markdown(plan)
