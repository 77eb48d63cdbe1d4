"""Warnings of a plan: it limits the principal that applies it; a value looks like bits in place of bytes."""

import pytest
from msgspec.structs import replace

from reconciler.quota.entity import entity
from reconciler.quota.ownership import Owner, OwnershipRecords, Recorded
from reconciler.quota.planner.comparison import compare
from reconciler.quota.planner.desired_state import Declaration, merge
from reconciler.quota.planner.effects import bit_slips, blocked_limits, own_limits, unranked_limits
from reconciler.quota.policy import Cause, Rules
from reconciler.quota.precedence import Principal
from reconciler.quota.state import QuotaState, limits_of
from tests.quota.planner.test_guards import RATE, SHARE, change


def test_a_plan_that_limits_the_principal_of_kquota_causes_a_warning():
    us = Principal(user="admin", client_id="kquota")
    own_change = change(None, 1e6, subject=entity(user="admin"))
    (warning,) = own_limits(QuotaState(), [own_change], us)
    assert "producer_byte_rate limits the principal of this tool, admin" in warning
    assert own_limits(QuotaState(), [change(None, 1e6)], us) == ()
    live = QuotaState(limits={entity(user="admin"): limits_of({RATE: 1e6})})
    assert own_limits(live, [change(None, 1e6)], us) == ()
    assert own_limits(live, [change(1e6, None, subject=entity(user="admin"))], us) == ()


@pytest.mark.parametrize(
    ("values", "text"),
    [({RATE: 9.0}, "1 declared limit,"), ({RATE: 9.0, SHARE: 9.0}, "2 declared limits,")],
)
def test_limits_that_a_suspended_document_owns_are_counted(values, text):
    alice, owner = entity(user="alice"), Owner(document="team/one")
    records = [Recorded(entity=alice, key=key, value=5.0, owner=owner) for key in values]
    plan = compare(
        desired=merge(
            [Declaration(document="team/two", entity=alice, limits=limits_of(values))],
            frozen=["team/one"],
        ),
        owned=OwnershipRecords(cluster_id="lkc-1").with_changes(records),
        live=QuotaState(limits={alice: limits_of(dict.fromkeys(values, 5.0))}),
        rules=Rules(),
    )
    (warning,) = blocked_limits(plan)
    assert warning.startswith(f"not written: {text} because another document")
    assert blocked_limits(replace(plan, findings=())) == ()


@pytest.mark.parametrize(
    ("rate_change", "slips"),
    [
        (change(1e6, 8e6), True),
        (change(8e6, 1e6), True),
        (change(1e6, 8.1e6), False),
        (change(0.0, 8e6), False),
        (change(None, 8e6), False),
        (change(8e6, None), False),
        (change(10.0, 80.0, key=SHARE), False),
        (change(1e6, 8e6, cause=Cause.OVERRIDE), False),
    ],
)
def test_exactly_eight_times_a_byte_rate_looks_like_bits(rate_change, slips):
    assert bit_slips([rate_change]) == (rate_change,) * slips


@pytest.mark.parametrize(
    ("names", "subject", "is_named"),
    [
        ((("client-id-prefix", "etl-"),), entity(client_id="etl-1"), True),
        ((("client-id-prefix", "etl-"),), entity(client_id="web"), False),
        ((("client-id-prefix", "etl-"),), entity(client_id=None), True),
        ((("client-id-prefix", "etl-"),), entity(user="alice"), True),
        ((("client-id-prefix", "etl-"), ("user", "bob")), entity(user="alice"), False),
        ((("client-id-prefix", "etl-"), ("user", None)), entity(client_id="etl-2"), True),
        ((("team", "a"),), entity(user="alice"), True),
    ],
)
def test_a_changed_key_is_named_if_a_limit_of_another_type_may_apply_to_the_same_client(
    names, subject, is_named
):
    live = QuotaState(foreign_entities=((names, ((str(RATE), 1.0),)),))
    named = unranked_limits(live, [change(None, 1e6, subject=subject)])
    assert named == (((names, RATE),) if is_named else ())
    assert unranked_limits(live, []) == ()
