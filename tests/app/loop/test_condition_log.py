"""Tests of the log of conditions: each new condition is logged once."""

import logging

import pytest
from msgspec.structs import replace

from reconciler.app.loop.condition_log import MOST_LINES, ConditionLog
from reconciler.errors import ConnectError
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.planner.guards import Guard, Violation
from reconciler.quota.planner.plan import Plan, QuotaChange
from reconciler.quota.policy import Cause, DriftMode, Policy
from reconciler.quota.results.report import (
    Outcome,
    PairOutcome,
    Preview,
    Reconciliation,
    RunOrigin,
    ValidationResult,
    WithheldChange,
)
from reconciler.quota.state import Applied, Held, Rejected, Unknown

RATE = Key.PRODUCER_BYTE_RATE


def change(user: str = "alice") -> QuotaChange:
    return QuotaChange(
        entity=entity(user=user), key=RATE, before=None, after=2048.0, cause=Cause.CREATE
    )


LOOKED = Reconciliation(
    cluster="prod",
    preview=Preview(
        plan=Plan(cluster_id="c"),
        verdict=ValidationResult(source="none"),
        policy=Policy.UPSERT,
        drift_mode=DriftMode.WARN,
        created_at=0.0,
    ),
)


def withheld(*users: str) -> Reconciliation:
    violation = Violation(guard=Guard.BOUNDS_UNIT, message="a slip of the unit?\x1b[31m")
    return replace(
        LOOKED,
        withheld=tuple(
            WithheldChange(change=change(user), violations=(violation,)) for user in users
        ),
    )


@pytest.fixture
def lines_of(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, "reconciler")
    standing = ConditionLog("prod")

    def tell(reconciliation: Reconciliation) -> list[str]:
        caplog.clear()
        standing.log(reconciliation)
        return [record.getMessage() for record in caplog.records]

    return tell


def test_a_condition_is_logged_when_it_begins_and_when_it_ends(lines_of):
    (line,) = lines_of(withheld("alice"))
    assert line == (
        "prod: not made: user=alice producer_byte_rate: a slip of the unit?\\u001b[31m"
        " (allowed by guards.bounds)"
    )
    assert lines_of(withheld("alice")) == []
    assert len(lines_of(withheld("alice", "bob"))) == 1
    assert lines_of(LOOKED) == ["prod: recovered"]
    assert lines_of(LOOKED) == []


def test_a_failed_reconciliation_logs_no_change_of_a_condition(lines_of):
    lines_of(withheld("alice"))
    assert lines_of(Reconciliation(cluster="prod", error=ConnectError("no broker answers"))) == []
    assert lines_of(withheld("alice")) == []


def test_long_lists_are_shortened_with_a_count(lines_of):
    users = [f"u{number:03}" for number in range(MOST_LINES + 5)]
    lines = lines_of(withheld(*users))
    assert len(lines) == MOST_LINES + 1
    assert lines[-1] == "prod: and 5 more not made"


def test_an_outcome_is_logged_with_counts_and_commit(lines_of):
    results = (
        Applied(),
        Applied(),
        Rejected(code=44, name="POLICY_VIOLATION", message="no"),
        Held(waits_for=(entity(user="u2"),)),
        Unknown(reason="cut off"),
    )
    outcome = Outcome(
        cluster_id="c",
        digest="d",
        pairs=tuple(
            PairOutcome(change=change(f"u{number}"), result=result)
            for number, result in enumerate(results)
        ),
        origin=RunOrigin(commit="a" * 40),
    )
    assert lines_of(replace(LOOKED, outcome=outcome)) == [
        "prod: 2 applied, 1 rejected, 1 waiting, 1 unknown for aaaaaaaaaaaa",
        "prod: rejected: user=u2 producer_byte_rate: POLICY_VIOLATION: no",
        "prod: waiting: user=u3 producer_byte_rate: waits for user=u2",
        "prod: unknown: user=u4 producer_byte_rate: cut off",
    ]
