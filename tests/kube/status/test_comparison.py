"""Whether a status is written again: not for times, not for fields of other managers."""

from reconciler.kube.status.conditions import CONDITIONS, conditions, unchanged
from reconciler.kube.status.reasons import Reason

READY = {"type": "Ready", "status": "True", "reason": "Synced", "message": ""}
FOREIGN = {"type": "AcmeApproved", "status": "False", "reason": "No", "message": "ask again"}


def test_a_foreign_condition_causes_no_write():
    own_status = {"entity": "user=a", "conditions": [READY]}
    assert unchanged({**own_status, "conditions": [FOREIGN, READY]}, own_status)
    assert not unchanged(
        {**own_status, "conditions": [FOREIGN, {**READY, "status": "False"}]}, own_status
    )
    assert not unchanged({"entity": "user=a", "conditions": [FOREIGN]}, own_status)


def test_every_condition_type_of_kquota_is_recognised():
    types = {
        condition["type"]
        for reason in Reason
        for condition in conditions(
            reason, "x", generation=1, previous=(), now=0.0, doubt="x", over_budget="x"
        )
    }
    assert types == CONDITIONS
