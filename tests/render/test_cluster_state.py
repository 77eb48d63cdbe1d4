"""Live quotas, effective limits, drift and checks as text and as documents."""

import pytest
from msgspec.structs import replace

from reconciler.quota.entity import DEFAULT, entity
from reconciler.quota.keys import Key
from reconciler.quota.overrides import Override
from reconciler.quota.ownership import Owner
from reconciler.quota.planner.plan import Finding
from reconciler.quota.policy import Action, Cause
from reconciler.quota.precedence import Principal, resolve
from reconciler.quota.state import QuotaState, limits_of
from reconciler.render.cluster_state import (
    resolutions_document,
    resolutions_text,
    state_text,
    temporary_notes,
)
from reconciler.render.json_values import dump
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


def test_an_empty_cluster_is_shown_as_a_sentence():
    assert state_text(QuotaState()) == "No quotas.\n"


@pytest.mark.golden
def test_effective_limits_are_written_as_text_and_as_json():
    resolutions = [
        resolve(STATE, Principal(user="alice", client_id="shop")),
        resolve(STATE, Principal(user="zoe", client_id="")),
        resolve(STATE, Principal(ip="10.0.0.1")),
    ]
    golden("resolve.txt", resolutions_text(resolutions))
    golden("resolve.json", dump(resolutions_document(resolutions, cluster_id="lkc", overrides={})))


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


def test_a_limit_that_is_temporary_or_temporarily_removed_is_named():
    key, alice = Key.PRODUCER_BYTE_RATE, entity(user="alice")
    anyone = entity(user=DEFAULT)
    more = {"until": 0.0, "author": "eve", "reason": "INC-1"}
    set_one = Override(entity=alice, key=key, value=9.0, **more)
    removed = Override(entity=alice, key=key, value=None, **more)
    live = QuotaState(limits={alice: limits_of({key: 9.0}), anyone: limits_of({key: 5.0})})
    without = QuotaState(limits={anyone: limits_of({key: 5.0})})
    client = Principal(user="alice", client_id="shop")
    (note,) = temporary_notes([resolve(live, client)], {(alice, key): set_one})
    assert note.startswith(
        "user=alice,client-id=shop: producer_byte_rate is temporary: user=alice 9"
    )
    assert note.endswith("override by eve until 1970-01-01 00:00 UTC: INC-1")
    assert temporary_notes([resolve(without, client)], {(alice, key): removed})
    assert not temporary_notes([resolve(without, client)], {(alice, key): set_one})
    # A wider limit that does not decide.
    wider = Override(entity=anyone, key=key, value=5.0, **more)
    assert not temporary_notes([resolve(live, client)], {(anyone, key): wider})
    ip = Override(
        entity=entity(ip="10.0.0.1"), key=Key.CONNECTION_CREATION_RATE, value=None, **more
    )
    assert temporary_notes([resolve(live, Principal(ip="10.0.0.1"))], {(ip.entity, ip.key): ip})
