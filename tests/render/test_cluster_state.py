"""Live quotas, effective limits, drift and checks as text and as documents."""

import json

import pytest
from msgspec.structs import replace

from reconciler.codecs.drift import drift_document
from reconciler.quota.entity import DEFAULT, entity
from reconciler.quota.keys import Key
from reconciler.quota.overrides import Override
from reconciler.quota.ownership import Owner
from reconciler.quota.planner.plan import Finding
from reconciler.quota.policy import Action, Cause
from reconciler.quota.precedence import Principal, resolve
from reconciler.quota.results.report import ExpiredOverride
from reconciler.quota.state import QuotaState, limits_of
from reconciler.render.cluster_state import (
    Check,
    CheckStatus,
    checks_document,
    checks_text,
    principal_text,
    resolutions_document,
    resolutions_text,
    state_text,
)
from reconciler.render.json_values import dump
from reconciler.render.table import Style
from reconciler.render.terminal import SHOWN_TROUBLE, drift_text
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
CHECKS = (
    Check(name="reachable", health=CheckStatus.OK, observation="3 brokers"),
    Check(
        name="permissions", health=CheckStatus.FAILED, observation="no\nright", advice="add the ACL"
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
    golden("resolve.json", dump(resolutions_document(resolutions, cluster_id="lkc")))


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


def test_a_principal_shows_only_its_given_names():
    assert principal_text(Principal(user="a b", client_id="")) == 'user=a b,client-id=""'


def test_drift_shows_the_applied_value_the_live_value_and_its_start():
    text = drift_text(DRIFT, now=NOW)
    assert text.splitlines()[0] == "Drift (1)"
    assert '"a\\u000a\\u001b[31m|"' in text
    assert "2048 (2 KiB/s)" in text
    assert "first seen 2 h ago" in text
    assert drift_text((), now=NOW) == "No drift.\n"


def test_ignored_differences_are_no_drift():
    ignored = tuple(replace(finding, ignored=True) for finding in DRIFT)
    assert drift_text(ignored, now=NOW) == "No drift.\n1 difference covered by an ignore rule.\n"


def test_long_lists_of_drift_are_counted_completely_and_listed_completely_on_request():
    much = DRIFT * (SHOWN_TROUBLE + 1)
    text = drift_text(much, now=NOW)
    assert f"Drift ({len(much):,})" in text
    assert f"and {len(much) - SHOWN_TROUBLE:,} more (--verbose and --format json show all)" in text
    assert len(drift_text(much, now=NOW, verbose=True).splitlines()) == len(much) + 2
    row = json.loads(dump(drift_document(DRIFT, cluster_id="lkc", now=NOW)))["drift"][0]
    assert (row["applied"], row["live"], row["since"]) == (2048, None, "2025-11-21T10:00:00Z")


def expired(count: int = 1) -> tuple[ExpiredOverride, ...]:
    override = Override(
        entity=entity(user="alice\n"),
        key=Key.PRODUCER_BYTE_RATE,
        value=4096.0,
        until=NOW - 7200,
        author="eve\x1b[31m",
        reason="INC-1\n",
        before=None,
        declared=2048.0,
    )
    expired_override = ExpiredOverride(
        override=override, expected=2048.0, live=4096.0, document="team/a"
    )
    return (expired_override,) * count


def test_an_expired_override_has_its_own_table():
    text = drift_text((), expired(), now=NOW)
    assert text.splitlines()[0] == "Expired overrides that are still live (1)"
    assert "2048 (2 KiB/s)  ->  4096 (4 KiB/s)  ended 2 h ago  team/a" in text
    assert "override by eve\\u001b[31m until 2025-11-21 10:00 UTC: INC-1" in text
    assert "No drift" not in text
    both = drift_text(DRIFT, expired(), now=NOW)
    assert "Drift (1)" in both
    assert "Expired overrides that are still live (1)" in both
    assert "and 1 more (--verbose" in drift_text((), expired(SHOWN_TROUBLE + 1), now=NOW)


def test_checks_contain_the_next_step():
    assert checks_text(CHECKS) == (
        "ok       reachable    3 brokers\n"
        "failed   permissions  no\\u000aright\n"
        "                      add the ACL\n"
    )
    document = json.loads(dump(checks_document(CHECKS, cluster_id="lkc")))
    assert not document["ok"]
    assert document["checks"][1]["health"] == "failed"
