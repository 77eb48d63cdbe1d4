"""Flat rows: every column is text or a number, and the default is never the text of a name."""

import pytest

from reconciler.quota.entity import DEFAULT, entity
from reconciler.quota.keys import Key
from reconciler.quota.outcome import Applied, Held, Rejected, Unknown
from reconciler.quota.ownership import Owner
from reconciler.quota.planner.desired_state import Declaration
from reconciler.quota.planner.plan import Plan, QuotaChange
from reconciler.quota.policy import Cause
from reconciler.quota.results.rows import PlanRow, plan_rows, result_row
from reconciler.quota.state import limits_of

RATE = Key.PRODUCER_BYTE_RATE
SET = QuotaChange(
    entity=entity(user=DEFAULT, client_id="<default>"),
    key=RATE,
    before=1.0,
    after=5.0,
    cause=Cause.SPEC,
    claim=Declaration(
        document="t/one",
        entity=entity(user=DEFAULT, client_id="<default>"),
        limits=limits_of({RATE: 5.0}),
        path="C:a.yaml",
        line=3,
        lines=(9, 0, 0, 0, 0),
    ),
)
REMOVED = QuotaChange(
    entity=entity(ip="::1"),
    key=Key.CONNECTION_CREATION_RATE,
    before=1.0,
    after=None,
    cause=Cause.PRUNE,
    owner=Owner(document="t/gone"),
)


def test_a_plan_becomes_one_row_per_change_in_its_order():
    first, second = plan_rows(Plan(cluster_id="c", changes=(SET, REMOVED)))
    assert first == PlanRow(
        cluster_id="c",
        entity=(("user", None), ("client-id", "<default>")),
        level=4,
        key="producer_byte_rate",
        action="update",
        cause="Spec",
        before=1.0,
        after=5.0,
        document="t/one",
        path="C:a.yaml",
        line=9,
    )
    assert (second.action, second.document, second.path, second.line) == ("remove", "t/gone", "", 0)
    assert {type(first.key), type(first.cause)} == {str}


def test_a_change_without_claim_and_owner_has_no_document():
    unmanaged = QuotaChange(entity=entity(user="a"), key=RATE, before=1.0, after=None, cause=Cause.UNMANAGED)  # fmt: skip
    (row,) = plan_rows(Plan(cluster_id="c", changes=(unmanaged,)))
    assert row.document == ""


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (Applied(), ("APPLIED", None, "")),
        (
            Rejected(code=42, name="INVALID_REQUEST", message="no"),
            ("REJECTED", 42, "INVALID_REQUEST: no"),
        ),
        (
            Held(waits_for=(entity(user=DEFAULT, client_id="<default>"), entity(ip="::1"))),
            ("HELD", None, "waits for default user + client-id '<default>', ip '::1'"),
        ),
        (Unknown(reason="cut off"), ("UNKNOWN", None, "cut off")),
    ],
)
def test_a_result_is_told_in_one_word_with_its_reason(result, said):
    (row,) = plan_rows(Plan(cluster_id="c", changes=(SET,)))
    new_row = result_row(row, result)
    assert (new_row.outcome, new_row.code, new_row.message) == said
    assert new_row.plan == row
