"""The table of reasons, row by row: the written status shows exactly the conditions of its row."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.kube.api.custom_resources import condition_of
from reconciler.kube.status.reasons import PRECEDENCE, Reason, worst
from tests.kube.crd_schema import faults
from tests.kube.scenarios import CLUSTERS, DOCUMENTS

CASES = [
    *(("ClientQuota", reason, make) for reason, make in DOCUMENTS.items()),
    *(("QuotaCluster", reason, make) for reason, make in CLUSTERS.items()),
]
NAMES = [f"{kind} {reason}" for kind, reason, _ in CASES]


@pytest.mark.parametrize(("kind", "reason", "make"), CASES, ids=NAMES)
def test_the_conditions_of_every_reason_equal_its_row(kind, reason, make):
    obj, row = make(), reason
    status = obj["status"]
    ready = condition_of(status, "Ready")
    assert (ready["reason"], ready["status"]) == (reason.value, row.ready)
    statuses = {condition["type"]: condition["status"] for condition in status["conditions"]}
    assert ("Stalled" in statuses) == row.stalled
    assert ("Reconciling" in statuses) == row.reconciling
    assert statuses["Paused"] == ("True" if row.paused else "False")
    if kind == "ClientQuota":
        assert (statuses["Conflict"] == "True") == (reason is Reason.CONFLICT)
    assert set(statuses) >= {"Ready", "Drifted", "Conflict", "Paused"}
    assert all(
        condition["observedGeneration"] == obj["metadata"]["generation"]
        for condition in status["conditions"]
    )
    assert status["observedGeneration"] == obj["metadata"]["generation"]
    for kind_of in ("Stalled", "Reconciling"):
        condition = condition_of(status, kind_of)
        assert not condition or (condition["reason"], condition["status"]) == (reason.value, "True")


@pytest.mark.parametrize(("kind", "reason", "make"), CASES, ids=NAMES)
def test_the_schema_accepts_the_status_of_every_reason(kind, reason, make):
    assert faults(kind, make()["status"]) == []


def test_every_reason_occurs_in_a_status():
    assert {row for row in Reason if "Q" in row.on} == set(DOCUMENTS)
    assert {row for row in Reason if "C" in row.on} == set(CLUSTERS)
    assert all(row.on in {"Q", "C", "QC"} for row in Reason)


@pytest.mark.parametrize("row", Reason, ids=lambda row: row.value)
def test_rows_match_the_interpretation_of_conditions_by_kstatus(row):
    """kstatus: Reconciling is InProgress, Stalled is Failed, Ready alone decides the rest."""
    if row is Reason.DELETING:
        assert row.kstatus == "Terminating"
    elif row.stalled:
        assert (row.ready, row.kstatus, row.argo) == ("False", "Failed", "Degraded")
    elif row.paused:
        assert (row.ready, row.kstatus, row.argo) == ("Unknown", "InProgress", "Suspended")
    elif row.reconciling:
        assert (row.kstatus, row.argo) == ("InProgress", "Progressing")
        assert row.ready != "True"
    else:
        assert (row.ready, row.kstatus, row.argo) == ("True", "Current", "Healthy")


PRODUCT = {
    "stalled": "Conflict NotGranted BrokerRejected ClusterNotFound GuardRefused",
    "reconciling": "BrokerUnavailable OutcomeUnknown Held",
    "ready": "ObserveOnly Drifted PolicyRestricted OverrideActive Synced",
    "paused": "Suspended ClusterSuspended",
}
"""The documented conditions, by reason."""


def test_the_documented_properties_of_reasons_hold():
    reasons = {row.value: row for row in Reason}
    for word, names in PRODUCT.items():
        for name in names.split():
            row = reasons[name]
            is_met = row.ready == "True" if word == "ready" else getattr(row, word)
            assert is_met, (word, name)


@given(st.sets(st.sampled_from(Reason), min_size=1))
def test_of_several_reasons_the_first_in_the_table_is_shown(reasons):
    assert worst(*reasons) is min(reasons, key=lambda reason: PRECEDENCE[reason])
    assert worst() is Reason.SYNCED


def test_stalled_reasons_precede_reconciling_ones_and_these_precede_ready_ones():
    rank = {"stuck": 0, "waits": 1, "fine": 2}
    of_keys = [row for row in Reason if PRECEDENCE[row] >= PRECEDENCE[Reason.CONFLICT]]
    order = [
        rank["stuck" if row.stalled else "waits" if row.reconciling else "fine"] for row in of_keys
    ]
    assert order == sorted(order)


def test_messages_for_tenants_name_no_other_tenant():
    for row in Reason:
        assert not any(word in row.message for word in ("{", "%", "User:", "@"))
        assert row.helps.endswith(".")
        assert not row.message.endswith(".")
