"""Live quotas, effective limits, drift and checks as text and as documents."""

import pytest
from msgspec.structs import replace

from reconciler.quota.entity import DEFAULT, entity
from reconciler.quota.ownership import Owner
from reconciler.quota.planner.plan import Finding
from reconciler.quota.policy import Action, Cause
from reconciler.quota.precedence import Principal, resolve
from reconciler.quota.state import QuotaState, limits_of
from reconciler.render.cluster_state import (
    resolutions_text,
    state_text,
)
from reconciler.render.table import Style
from reconciler.render.terminal import drift_text
from tests.render.previews import CONSUME, NOW, RATE, golden

EVIL = entity(user="a\n\x1b[31m|")
STATE = QuotaState(
    limits={
        entity(user="alice"): limits_of({RATE: 10485760.0, CONSUME: 2.0**63}),
        entity(user=DEFAULT): limits_of({RATE: 5.0}),
        entity(user="<default>"): limits_of({RATE: 1000000.0000005}),
        EVIL: limits_of({RATE: float("nan")}),
        entity(client_id="shop"): limits_of({RATE: 7.0}),
        entity(ip=DEFAULT): (None, None, None, None, 3.0),
    },
    foreign_values={entity(user="alice"): (("new_rate", 4.0),)},
    foreign_entities=(((("client-id-prefix", "x\n"),), (("producer_byte_rate", 9.0),)),),
)
DRIFT = (
    Finding(
        entity=EVIL,
        key=RATE,
        desired=2048.0,
        applied=2048.0,
        live=None,
        cause=Cause.DRIFT,
        action=Action.REPORT,
        owner=Owner(document="a/b"),
        since=NOW - 7200,
    ),
)


@pytest.mark.golden
def test_the_table_of_live_quotas_equals_the_golden_file():
    golden("state.txt", state_text(STATE))


@pytest.mark.parametrize("width", [80, 120])
def test_on_a_terminal_a_row_that_does_not_fit_is_folded_by_its_parts(width):
    user, style = "payments-" * 4, Style(width=width)
    state = QuotaState(
        limits={
            entity(user=user): limits_of({RATE: 5.0}),
            entity(client_id="shop"): limits_of({RATE: 7.0}),
        },
        foreign_values={entity(user=user): (("a_new_rate_" * 4, 4.0),)},
    )
    resolved = resolutions_text(
        [resolve(state, Principal(user=user, client_id="shop"))], style=style
    )
    assert f"\n    from user={user}\n    shared by all client-ids of {user}\n" in resolved
    assert "\n    overrides client-id=shop 7 B/s\n" in resolved
    described = state_text(state, style=Style(width=80))
    assert f"user={user}\n  producer_byte_rate " in described
    assert all(len(line) <= 80 for line in described.splitlines())


def test_ignored_differences_are_no_drift():
    ignored = tuple(replace(finding, ignored=True) for finding in DRIFT)
    assert drift_text(ignored, now=NOW) == "No drift.\n1 difference covered by an ignore rule.\n"
