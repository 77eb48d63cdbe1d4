"""The status of a document: its records, its keys, and what stays when the cluster could not be read."""

import math

import pytest
from msgspec.structs import replace

from reconciler.errors import ConnectError
from reconciler.kube.api.custom_resources import REQUESTED_AT, condition_of
from reconciler.kube.status.client_quota import GRACE_SECONDS, MOST_ENTITY, document_status
from reconciler.kube.status.conditions import unchanged
from reconciler.kube.status.eligibility import assess_eligibility
from reconciler.kube.status.key_status import KeyStatusIndex
from reconciler.manifest.project.cluster import from_spec
from reconciler.quota.entity import DEFAULT, entity
from reconciler.quota.ownership import OwnershipRecords
from reconciler.quota.results.report import Reconciliation
from tests.fakes.cluster import LOST
from tests.kube.crd_schema import faults
from tests.kube.scenarios import CREATED, DOCUMENT, NOW, kube_world, meddle, ran
from tests.kube.worlds import KubeWorld, resource, seen
from tests.reconcile.scenarios import ALICE, RATE

CLUSTERS = {"prod": from_spec("prod", {"bootstrapServers": "b:1"})}
AWAY = Reconciliation(cluster="prod", error=ConnectError("no broker answers"))


def after(report, previous, obj=CREATED, **more):
    return document_status(
        assess_eligibility(seen(obj), CLUSTERS),
        key_statuses=KeyStatusIndex(
            report, losses={}, owned=OwnershipRecords(cluster_id="", is_known=False)
        ),
        previous=previous,
        now=NOW + 5000,
        **more,
    )


# ---- keys --------------------------------------------------------------------------------------


@pytest.mark.parametrize("fields", [{}, {"live": 5}, {"applied": 5}, {"intendedRemoval": True}])
@pytest.mark.parametrize("reason", ["NotGranted", "Suspended"])
def test_an_entry_that_hides_what_is_live_is_not_kept_without_a_comparison(fields, reason):
    """It would later say of a suspended document that its limit is not live, which an override would restore."""
    entry = {"key": "producer_byte_rate", "cause": "Frozen", **fields}
    previous = {"keys": [entry], "conditions": [{"type": "Ready", "reason": reason}]}
    obj = {**CREATED, "spec": {**CREATED["spec"], "suspend": True}}
    keys = after(AWAY, previous, obj).get("keys", [])
    assert bool(keys) == (bool(fields) or reason == "Suspended")


def test_a_missing_right_is_distinguished_from_a_rejected_value():
    world = kube_world()
    world.kafka.faults.rejected[ALICE] = (31, "CLUSTER_AUTHORIZATION_FAILED", "not allowed")
    ran(world)
    assert world.reason(DOCUMENT) == "AuthorizationFailed"


def test_a_lost_response_keeps_the_intent_until_it_is_settled():
    world = kube_world()
    world.kafka.faults.unknown[ALICE] = LOST
    ran(world)
    key = world.key(DOCUMENT, RATE)
    assert (key["intended"], key["result"]) == (4096, "Unknown")
    world.kafka.faults.unknown.clear()
    ran(world)
    assert world.reason(DOCUMENT) == "Synced"
    assert "intended" not in world.key(DOCUMENT, RATE)


# ---- drift -------------------------------------------------------------------------------------


def test_a_restart_forgets_no_drift_and_writes_nothing():
    world = KubeWorld(confirm_after=2)
    world.put(CREATED)
    ran(world)
    meddle(world)
    ran(world, passes=2)
    world.writes.clear()
    world.restart()
    ran(world)
    assert world.condition(DOCUMENT, "Drifted")["status"] == "True"
    assert world.writes == []


# ---- conflicts ---------------------------------------------------------------------------------


# ---- documents that freeze or go ---------------------------------------------------------------


def test_another_writer_that_reverts_corrections_is_reported_with_values_and_times():
    world = kube_world(driftDetection="Correct")
    ran(world)
    for value in (5001.0, 5002.0, 5003.0, 5004.0):
        meddle(world, value)
        ran(world)
    message = world.condition(DOCUMENT)["message"]
    assert world.reason(DOCUMENT) == "FoughtOver"
    assert message.startswith(
        "producer_byte_rate: 4096 was applied, 5004 is live; it was corrected 3 times"
    )
    assert "2023-11-14T22:15:00Z over 5001" in message
    assert world.condition(DOCUMENT, "Drifted")["status"] == "True"


# ---- passes that failed ------------------------------------------------------------------------


def test_a_short_failure_changes_no_status_and_an_outage_does():
    world = kube_world()
    ran(world)
    before = world.status(DOCUMENT)
    assert after(AWAY, before, outage=GRACE_SECONDS - 1) == before
    status = after(AWAY, before, outage=GRACE_SECONDS)
    assert condition_of(status, "Ready")["reason"] == "BrokerUnavailable"
    newer = resource("a", ALICE, {RATE: 8192})
    newer["metadata"]["generation"] = 2
    assert condition_of(after(AWAY, before, newer, outage=0.0), "Ready")["status"] == "False"


# ---- around ------------------------------------------------------------------------------------


def test_a_request_is_handled_by_a_reconciliation_that_observed_it_and_not_before():
    obj = resource("a", ALICE, {RATE: 4096})
    obj["metadata"]["annotations"] = {REQUESTED_AT: "r" * 300}
    assert "lastHandledReconcileAt" not in document_status(
        assess_eligibility(seen(obj), CLUSTERS), previous={}, now=NOW
    )
    assert ran(kube_world(None, obj))["status"]["lastHandledReconcileAt"] == "r" * 128
    assert after(AWAY, {}, obj)["lastHandledReconcileAt"] == "r" * 128
    status = after(AWAY, {"lastHandledReconcileAt": "earlier"}, outage=math.inf)
    assert status["lastHandledReconcileAt"] == "earlier"


LONG = (
    entity(user="x" * 512, client_id="y" * 512),
    entity(user="\u202e" * 170),
    entity(user='"\\' * 256, client_id=DEFAULT),
)


@pytest.mark.parametrize("subject", LONG, ids=["both slots", "reordering", "quotes"])
def test_the_longest_names_give_statuses_that_the_api_server_accepts(subject):
    world = kube_world(None, resource("a", subject, {RATE: 4096}))
    world.kafka.faults.rejected[subject] = (42, "INVALID_REQUEST", "no " * 20_000)
    obj = ran(world)
    status = obj["status"]
    assert faults("ClientQuota", status) == []
    assert len(status["entity"]) <= MOST_ENTITY
    assert len(repr(status)) < 12_000
    stored = world.load()[1]
    assert replace(stored, is_known=world.owned.is_known) == world.owned


# ---- unchanged ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("later", "same"),
    [("2024-01-01T00:09:59Z", True), ("2024-01-01T00:10:00Z", False), (None, False), ("x", False)],
)
def test_the_time_of_the_last_sync_is_refreshed_at_intervals(later, same):
    before = {"lastSuccessfulSyncTime": "2024-01-01T00:00:00Z"}
    assert unchanged(before, {"lastSuccessfulSyncTime": later} if later else {}) is same
