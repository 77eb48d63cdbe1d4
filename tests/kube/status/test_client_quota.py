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
from reconciler.kube.status.reasons import Reason
from reconciler.manifest.project.cluster import from_spec
from reconciler.quota.entity import DEFAULT, entity
from reconciler.quota.ownership import OwnershipRecords
from reconciler.quota.results.report import Reconciliation
from reconciler.reconcile import NewOverride
from tests.fakes.cluster import LOST
from tests.kube.crd_schema import faults
from tests.kube.scenarios import CREATED, DOCUMENT, NOW, kube_world, meddle, ran
from tests.kube.worlds import KubeWorld, resource, seen
from tests.reconcile.scenarios import ALICE, ALICE_SHOP, RATE, SHARE

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


def test_an_applied_limit_is_shown_with_value_time_and_result():
    world = kube_world(
        None, resource("a", ALICE, {RATE: "10Mi", SHARE: 50.5}, deletionPolicy="Delete")
    )
    ran(world)
    assert world.key(DOCUMENT, RATE) == {
        "key": "producer_byte_rate",
        "desired": 10485760,
        "live": 10485760,
        "applied": 10485760,
        "appliedAt": "2023-11-14T22:13:20Z",
        "cause": "InSync",
        "result": "Applied",
    }
    assert world.key(DOCUMENT, SHARE)["applied"] == 50.5
    assert world.status(DOCUMENT)["entity"] == "user=alice"
    assert world.status(DOCUMENT)["clusterId"] == "fake-cluster"


@pytest.mark.parametrize("fields", [{}, {"live": 5}, {"applied": 5}])
@pytest.mark.parametrize("reason", ["NotGranted", "Suspended"])
def test_an_entry_that_hides_what_is_live_is_not_kept_without_a_comparison(fields, reason):
    """It would later say of a suspended document that its limit is not live, which an override would restore."""
    entry = {"key": "producer_byte_rate", "cause": "Frozen", **fields}
    previous = {"keys": [entry], "conditions": [{"type": "Ready", "reason": reason}]}
    obj = {**CREATED, "spec": {**CREATED["spec"], "suspend": True}}
    keys = after(AWAY, previous, obj).get("keys", [])
    assert bool(keys) == (bool(fields) or reason == "Suspended")


def test_a_changed_limit_has_a_new_time_and_an_unchanged_one_keeps_its_own():
    world = kube_world(None, resource("a", ALICE, {RATE: 4096, SHARE: 50}))
    ran(world)
    world.put(resource("a", ALICE, {RATE: 8192, SHARE: 50}))
    ran(world)
    rate, share = world.key(DOCUMENT, RATE), world.key(DOCUMENT, SHARE)
    assert rate["appliedAt"] > share["appliedAt"]
    assert world.status(DOCUMENT)["observedGeneration"] == 2


def test_a_key_removed_from_the_document_is_in_the_status_until_it_is_removed():
    world = kube_world(None, resource("a", ALICE, {RATE: 4096, SHARE: 50}))
    ran(world)
    world.put(resource("a", ALICE, {RATE: 4096}))
    world.run(complete=False)
    waiting = world.key(DOCUMENT, SHARE)
    assert "desired" not in waiting
    assert waiting["applied"] == 50
    assert world.reason(DOCUMENT) == "Held"
    assert "not every document was read" in waiting["message"]
    world.run()
    assert [key["key"] for key in world.status(DOCUMENT)["keys"]] == ["producer_byte_rate"]
    assert world.reason(DOCUMENT) == "Synced"


def test_a_rejection_is_shown_with_the_message_of_the_broker_until_it_accepts():
    world = kube_world()
    world.kafka.faults.rejected[ALICE] = (42, "INVALID_REQUEST", "Custom policy: too \x1b[31m much")
    ran(world)
    assert world.reason(DOCUMENT) == "BrokerRejected"
    assert world.key(DOCUMENT, RATE)["result"] == "Rejected"
    assert "Custom policy: too \\u001b[31m much" in world.key(DOCUMENT, RATE)["message"]
    assert "applied" not in world.key(DOCUMENT, RATE)
    world.kafka.faults.rejected.clear()
    ran(world)
    assert world.reason(DOCUMENT) == "Synced"
    assert world.key(DOCUMENT, RATE)["result"] == "Applied"
    assert "message" not in world.key(DOCUMENT, RATE)


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
    assert key["result"] == "Unknown"
    world.kafka.faults.unknown.clear()
    ran(world)
    assert world.reason(DOCUMENT) == "Synced"
    assert world.key(DOCUMENT, RATE)["applied"] == 4096


def test_a_live_value_that_json_cannot_represent_is_omitted():
    world = kube_world({ALICE: {RATE: math.nan}}, policy="CreateOnly")
    ran(world)
    assert "live" not in world.key(DOCUMENT, RATE)
    assert world.reason(DOCUMENT) == "PolicyRestricted"
    assert "nan" in world.condition(DOCUMENT)["message"]


def test_the_worst_key_determines_the_reason_and_is_listed_first():
    world = kube_world(
        {ALICE: {SHARE: 5000.0}},
        resource("a", ALICE, {RATE: 4096, SHARE: 50}),
        resource("b", ALICE, {RATE: 5}, created="2020-01-01T00:00:00Z"),
        policy="CreateOnly",
    )
    ran(world)
    ready = world.condition(DOCUMENT)
    assert ready["reason"] == "Conflict"
    assert ready["message"].startswith(
        "producer_byte_rate: ClientQuota team/b has it; request_percentage: "
    )


def test_an_override_is_shown_beside_the_declared_value():
    order = NewOverride(
        entity=ALICE, key=RATE, value=8192.0, until=NOW + 9000, principal="me\n", reason="night"
    )
    world = kube_world()
    ran(world, overrides=(order,))
    key = world.key(DOCUMENT, RATE)
    assert (key["desired"], key["live"]) == (4096, 8192)
    assert key["overriddenBy"] == {
        "until": "2023-11-15T00:43:20Z",
        "who": "me\\u000a",
        "reason": "night",
        "value": 8192,
    }
    world.writes.clear()
    ran(world)
    assert "status team/a" not in world.writes
    world.clock.advance(9000)
    ran(world)
    assert world.reason(DOCUMENT) == "Synced"
    assert "overriddenBy" not in world.key(DOCUMENT, RATE)
    assert world.key(DOCUMENT, RATE)["live"] == 4096


# ---- drift -------------------------------------------------------------------------------------


def test_drift_is_shown_at_the_key_immediately_and_as_condition_after_enough_observations():
    world = KubeWorld(confirm_after=2)
    world.put(CREATED)
    ran(world)
    meddle(world)
    ran(world)
    assert world.reason(DOCUMENT) == "Synced"
    message = world.condition(DOCUMENT)["message"]
    assert message == "producer_byte_rate: 4096 was applied, 9999 is live"
    assert world.condition(DOCUMENT, "Drifted")["status"] == "Unknown"
    assert condition_of(world.obj["status"], "Drifted")["status"] == "Unknown"
    ran(world)
    assert world.reason(DOCUMENT) == "Drifted"
    assert world.condition(DOCUMENT, "Drifted")["status"] == "True"


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


def test_corrected_drift_is_removed_and_the_time_is_that_of_the_correction():
    world = kube_world(driftDetection="Correct")
    ran(world)
    before = world.key(DOCUMENT, RATE)["appliedAt"]
    meddle(world)
    ran(world)
    assert world.kafka.truth.value(ALICE, RATE) == 4096.0
    assert world.reason(DOCUMENT) == "Synced"
    assert world.key(DOCUMENT, RATE)["appliedAt"] > before


def test_with_disabled_detection_drift_is_shown_at_the_key_only():
    world = kube_world(driftDetection="Disabled")
    ran(world, passes=3)
    meddle(world)
    ran(world)
    assert world.reason(DOCUMENT) == "Synced"
    assert world.condition(DOCUMENT, "Drifted")["status"] == "False"
    assert world.key(DOCUMENT, RATE)["cause"] == "Drift"
    assert "Disabled" in world.key(DOCUMENT, RATE)["message"]


# ---- conflicts ---------------------------------------------------------------------------------


# ---- documents that freeze or go ---------------------------------------------------------------

FROZEN = {
    "suspended": resource("a", ALICE, {RATE: 1}, suspend=True),
    "invalid": resource("a", ALICE, {RATE: -1}),
}


@pytest.mark.parametrize("case", FROZEN)
def test_a_frozen_document_keeps_its_records_and_updates_its_observed_generation(case):
    world = kube_world()
    ran(world)
    world.put(FROZEN[case])
    ran(world)
    status = world.status(DOCUMENT)
    assert status["observedGeneration"] == 2
    key = world.key(DOCUMENT, RATE)
    assert (key["applied"], key["live"], key["cause"]) == (4096, 4096, "Frozen")
    assert world.condition(DOCUMENT, "Drifted")["status"] == "Unknown"
    assert world.kafka.truth.value(ALICE, RATE) == 4096.0
    world.put(CREATED)
    ran(world)
    assert world.reason(DOCUMENT) == "Synced"


def test_a_deleted_document_shows_the_reason_of_a_pending_removal():
    world = kube_world(None, resource("a", ALICE, {RATE: 4096}, deletionPolicy="Delete"))
    ran(world)
    world.delete(DOCUMENT, finalizer=True)
    world.run(complete=False)
    assert world.reason(DOCUMENT) == "Deleting"
    assert "not every document was read" in world.condition(DOCUMENT)["message"]
    world.run()
    assert world.kafka.truth.value(ALICE, RATE) is None
    assert DOCUMENT not in world.objects


def test_another_writer_that_reverts_corrections_is_reported():
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
    assert world.condition(DOCUMENT, "Drifted")["status"] == "True"


# ---- passes that failed ------------------------------------------------------------------------


def test_a_failed_reconciliation_keeps_the_keys_of_the_previous_status():
    world = kube_world()
    ran(world)
    meddle(world)
    ran(world)
    before = world.status(DOCUMENT)
    status = after(AWAY, before)
    assert condition_of(status, "Ready")["reason"] == "BrokerUnavailable"
    for name in ("keys", "clusterId", "entity"):
        assert status[name] == before[name]
    assert condition_of(status, "Drifted") == condition_of(before, "Drifted")


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


def test_a_name_stored_before_the_bound_gives_a_small_status_too():
    world = kube_world(None, resource("a", entity(user="\x01" * 32_767), {RATE: 4096}))
    status = ran(world)["status"]
    assert faults("ClientQuota", status) == []
    assert len(status["entity"]) <= MOST_ENTITY
    assert len(repr(status)) < 12_000
    assert world.reason("team/a") == "Invalid"


EVERYTHING = [{"namespaces": ["team", "other"], "entities": [{"user": {"prefix": ""}}]}]


@pytest.mark.parametrize(
    ("spec", "namespace", "name"),
    [
        ({}, "other", "user=alice,client-id=shop"),
        ({"tenants": EVERYTHING}, "team", "user=alice,client-id=shop"),
        ({"tenants": EVERYTHING}, "other", "a limit of another namespace (user + client-id)"),
    ],
)
def test_a_held_document_names_what_it_waits_for_as_far_as_its_author_may_see_it(
    spec, namespace, name
):
    closer = resource("closer", ALICE_SHOP, {RATE: 2048}, namespace=namespace)
    world = kube_world(None, CREATED, closer, **spec)
    world.kafka.faults.rejected[ALICE_SHOP] = (42, "INVALID_REQUEST", "no")
    ran(world)
    assert world.reason(DOCUMENT) == "Held"
    message = condition_of(world.status(DOCUMENT), "Ready")["message"]
    assert message == f"producer_byte_rate: waits for {name}, which the broker refuses"


# ---- unchanged ---------------------------------------------------------------------------------


def test_a_status_whose_lists_have_another_order_counts_as_unchanged():
    world = kube_world()
    before = ran(world)["status"]
    assert unchanged({**before, "conditions": before["conditions"][::-1]}, before)
    assert not unchanged({}, before)
    assert not unchanged(before, {**before, "observedGeneration": 2})
    changed = {**before, "keys": [{**key, "applied": 5} for key in before["keys"]]}
    assert not unchanged(before, changed)
    fewer = {**before, "keys": []}
    assert not unchanged(before, fewer)


@pytest.mark.parametrize(
    ("later", "same"),
    [("2024-01-01T00:09:59Z", True), ("2024-01-01T00:10:00Z", False), (None, False), ("x", False)],
)
def test_the_time_of_the_last_sync_is_refreshed_at_intervals(later, same):
    before = {"lastSuccessfulSyncTime": "2024-01-01T00:00:00Z"}
    assert unchanged(before, {"lastSuccessfulSyncTime": later} if later else {}) is same


def test_only_reasons_of_the_table_are_used():
    world = kube_world()
    ran(world)
    assert {reason.value for reason in Reason} >= {world.reason(DOCUMENT)}
