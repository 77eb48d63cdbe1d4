"""Warnings of a plan: it limits the principal that applies it; a value looks like bits in place of bytes."""

from reconciler.quota.entity import entity
from reconciler.quota.planner.effects import own_limits
from reconciler.quota.precedence import Principal
from reconciler.quota.state import QuotaState, limits_of
from tests.quota.planner.test_guards import RATE, change


def test_a_plan_that_limits_the_principal_of_kquota_causes_a_warning():
    us = Principal(user="admin", client_id="kquota")
    own_change = change(None, 1e6, subject=entity(user="admin"))
    (warning,) = own_limits(QuotaState(), [own_change], us)
    assert "producer_byte_rate limits the principal of this tool, admin" in warning
    assert own_limits(QuotaState(), [change(None, 1e6)], us) == ()
    live = QuotaState(limits={entity(user="admin"): limits_of({RATE: 1e6})})
    assert own_limits(live, [change(None, 1e6)], us) == ()
    assert own_limits(live, [change(1e6, None, subject=entity(user="admin"))], us) == ()
