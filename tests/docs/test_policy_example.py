"""The Rego example gives the documented results for real plans."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from reconciler.codecs.plan import plan_document
from reconciler.quota.entity import DEFAULT, Entity, entity
from reconciler.quota.keys import Key
from reconciler.quota.ownership import Owner, OwnershipRecords, Recorded
from reconciler.quota.patterns import EVERYTHING
from reconciler.quota.planner.desired_state import Declaration, merge
from reconciler.quota.planner.effects import fallbacks
from reconciler.quota.planner.guards import Guards, Protection, check
from reconciler.quota.planner.impact import assess
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.policy import Cause
from reconciler.quota.results.report import Preview, ValidationResult
from reconciler.quota.state import QuotaState, limits_of
from reconciler.render.json_values import dump
from tests.render.pages import looked
from tests.servers import rego

pytestmark = pytest.mark.integration

POLICY = Path(__file__).parents[2] / "examples" / "policy"
RATE, MIB = Key.PRODUCER_BYTE_RATE, 1048576.0


def declared(subject: Entity, value: float, line: int = 10) -> Declaration:
    return Declaration(
        document="team/one",
        entity=subject,
        limits=limits_of({RATE: value}),
        path="quotas/one.yaml",
        line=line,
    )


def plan(
    *declarations: Declaration,
    live: QuotaState | None = None,
    owned: OwnershipRecords | None = None,
) -> Preview:
    look = looked(
        merge(declarations), owned or OwnershipRecords(cluster_id="c"), live or QuotaState()
    )
    return look.preview


def judged(preview: Preview) -> dict[str, list[str]]:
    return rego.verdicts(POLICY, dump(plan_document(preview)))


def test_an_ordinary_plan_passes():
    assert judged(plan(declared(entity(user="alice"), 10 * MIB))) == {
        "failures": [],
        "warnings": [],
    }


def test_batch_users_have_their_own_bound():
    verdict = judged(
        plan(declared(entity(user="batch-a"), 300 * MIB), declared(entity(user="b"), 300 * MIB, 20))
    )
    assert verdict["failures"] == [
        "quotas/one.yaml:10: user=batch-a producer_byte_rate is more than 200 MiB/s, which batch jobs may have"
    ]


def test_a_change_that_a_guard_refuses_is_refused_with_its_place():
    preview = plan(declared(entity(user="alice"), MIB))
    guards = Guards(protected=(Protection(entities=EVERYTHING),))
    refused = replace(preview, violations=check(preview.plan, guards, QuotaState()))
    assert judged(refused)["failures"] == ["quotas/one.yaml:10: create on a protected entity"]


@pytest.mark.parametrize(("document", "allowed"), [("team/one", False), ("platform/one", True)])
def test_the_last_limit_may_be_removed_only_by_the_platform_team(document, allowed):
    alice = entity(user="alice")
    owned = OwnershipRecords(cluster_id="c").with_changes(
        [Recorded(entity=alice, key=RATE, value=MIB, owner=Owner(document=document))]
    )
    live = QuotaState(limits={alice: limits_of({RATE: MIB})})
    removed = QuotaChange(
        entity=alice,
        key=RATE,
        before=MIB,
        after=None,
        cause=Cause.PRUNE,
        owner=Owner(document=document),
    )
    verdict = judged(_with(removed, live, owned))
    assert verdict["failures"] == (
        []
        if allowed
        else [
            "declared nowhere: user=alice producer_byte_rate leaves its clients without any limit"
        ]
    )


def _with(change: QuotaChange, live: QuotaState, owned: OwnershipRecords) -> Preview:
    preview = plan(live=live, owned=owned)
    new_plan = replace(preview.plan, changes=(change,), findings=())
    return replace(
        preview,
        plan=new_plan,
        fallbacks=fallbacks((change,), live),
        impact=assess(new_plan, live),
        violations=(),
    )


def test_a_missing_validation_and_unread_documents_are_two_reasons():
    preview = plan(declared(entity(user="alice"), MIB))
    blind = replace(
        preview, verdict=ValidationResult(source="none"), plan=replace(preview.plan, complete=False)
    )
    assert judged(blind)["failures"] == [
        "not every document was read",
        "this plan was not validated: run it with --validate auto, broker or sandbox",
    ]


def test_takeovers_and_rules_that_never_apply_cause_warnings():
    live = QuotaState(
        limits={
            entity(client_id="app"): limits_of({RATE: MIB}),
            entity(user="alice"): limits_of({RATE: MIB}),
        }
    )
    preview = plan(
        declared(entity(user=DEFAULT), MIB), declared(entity(user="alice"), 2 * MIB, 20), live=live
    )
    assert judged(replace(preview, violations=()))["warnings"] == [
        "client-id=app producer_byte_rate can never apply after this plan",
        "quotas/one.yaml:20: user=alice producer_byte_rate takes over a value that another writer set",
    ]
