"""The values of metrics for a reconciliation."""

import pytest

from reconciler.errors import ConnectError, RequestTimeout
from reconciler.metrics import families, reconciliation_values
from reconciler.quota.planner.guards import Guard
from reconciler.quota.policy import Action, Cause
from reconciler.quota.results.report import PairVisibility, Reconciliation
from tests.metrics.reconciliations import (
    APPLIED,
    HELD,
    REJECTED,
    UNKNOWN,
    change,
    finding,
    outcome,
    passed,
    preview,
    sighting,
    withheld,
)

ONE = change()


@pytest.mark.parametrize(
    ("reconciliation", "expected"),
    [
        (passed(), ("in_order", "")),
        (passed(outcome=outcome((ONE, APPLIED))), ("in_order", "")),
        (passed(RequestTimeout("late", phase="connect")), ("failed", "request_timeout")),
        (passed(ConnectError("no")), ("failed", "connect_error")),
        (Reconciliation(cluster="prod"), ("failed", "no_plan")),
        (passed(withheld=(withheld(ONE, Guard.BOUNDS_RANGE),)), ("incomplete", "withheld")),
        (passed(outcome=outcome((ONE, UNKNOWN), (ONE, REJECTED))), ("incomplete", "unknown")),
        (passed(outcome=outcome((ONE, HELD), (ONE, REJECTED))), ("incomplete", "rejected")),
        (passed(outcome=outcome((ONE, HELD))), ("incomplete", "held")),
        (passed(outcome=outcome(interrupted=True)), ("incomplete", "interrupted")),
        (passed(outcome=outcome(recorded=False)), ("incomplete", "not_recorded")),
        (
            passed(outcome=outcome((ONE, APPLIED), visibility=PairVisibility.CHANGED)),
            ("incomplete", "changed_by_another"),
        ),
        (
            passed(outcome=outcome((ONE, APPLIED), visibility=PairVisibility.NOT_YET)),
            ("incomplete", "not_visible"),
        ),
        (passed(outcome=outcome(failure="broken off")), ("incomplete", "broken_off")),
    ],
)
def test_a_reconciliation_has_one_result_and_the_worst_reason(reconciliation, expected):
    assert reconciliation_values.verdict(reconciliation) == expected
    assert (expected[0] == "in_order") == reconciliation.in_order
    assert expected[0] in families.RESULTS


def test_every_state_of_a_pair_is_counted():
    plan = preview(
        findings=(
            finding(Cause.UNMANAGED),
            finding(Cause.PRUNE, Action.ORPHAN),
            finding(Cause.FROZEN),
            finding(Cause.SPEC),
            finding(Cause.OVERRIDE, Action.NOTHING),
        ),
        desired_pairs=11,
        owned_pairs=12,
        in_sync=7,
    )
    reconciliation = passed(
        preview=plan, observations=(sighting(), sighting(user="bob", confirmed=False))
    )
    assert reconciliation_values.states(reconciliation, plan.plan, foreign=4) == {
        "declared": 11,
        "owned": 12,
        "in_sync": 7,
        "drifted": 1,
        "unmanaged": 1,
        "orphaned": 1,
        "frozen": 1,
        "restricted": 1,
        "overridden": 1,
        "foreign": 4,
    }
    assert (
        tuple(reconciliation_values.states(reconciliation, plan.plan, foreign=0)) == families.STATES
    )


def test_operations_are_counted_by_kind_and_result():
    removal = change(Cause.PRUNE, after=None, before=2.0)
    update = change(Cause.SPEC, before=1.0)
    reported_outcome = outcome((ONE, APPLIED), (ONE, APPLIED), (removal, HELD), (update, None))
    assert reconciliation_values.operations(reported_outcome) == {
        ("create", "applied"): 2,
        ("remove", "held"): 1,
        ("update", "not_sent"): 1,
    }
    assert {kind for kind, _ in reconciliation_values.operations(reported_outcome)} == set(
        reconciliation_values.OPERATIONS
    )
    results = (APPLIED, REJECTED, HELD, UNKNOWN, None)
    words = reconciliation_values.operations(outcome(*((ONE, result) for result in results)))
    assert {word for _, word in words} == set(reconciliation_values.OUTCOMES)
