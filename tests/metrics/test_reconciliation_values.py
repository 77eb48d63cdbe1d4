"""The values of metrics for a reconciliation."""

import pytest

from reconciler.errors import ConnectError, RequestTimeout
from reconciler.metrics import families, reconciliation_values
from reconciler.quota.planner.guards import Guard
from reconciler.quota.results.report import PairVisibility, Reconciliation
from tests.metrics.reconciliations import (
    APPLIED,
    HELD,
    REJECTED,
    UNKNOWN,
    change,
    outcome,
    passed,
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
