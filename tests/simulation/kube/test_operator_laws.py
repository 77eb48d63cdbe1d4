"""Tests of each law of simulated operators with a hand-made history that violates it."""

from dataclasses import dataclass
from typing import Any

import pytest

from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.overrides import Override
from reconciler.quota.ownership import (
    Intent,
    IntentStarted,
    OverrideSet,
    Owner,
    OwnershipRecords,
    Recorded,
)
from reconciler.quota.policy import DeletionPolicy, DriftMode, Policy, Rules
from reconciler.sandbox.broker_rules.image import Image, QuotaRecord
from tests.simulation.brokers import CLUSTER_ID, Commit
from tests.simulation.kube.api_server import ApiServer, Obj, Place
from tests.simulation.kube.operator_laws import (
    LISTED_SECONDS,
    SHOWN_SECONDS,
    OperatorLaws,
)
from tests.simulation.kube.operator_world import OperatorWorld
from tests.simulation.kube.resources import FINALIZER, NAME_OF, TEAM, client_quota, declarations
from tests.simulation.laws import LawBroken, names_of
from tests.simulation.scenario import scenario_of

ALICE = entity(user="alice")
RATE = Key.PRODUCER_BYTE_RATE
PLACE: Place = ("clientquotas", TEAM, NAME_OF[ALICE])
NOW = 1_700_000_000.0


class History:
    """A hand-made history of users and an operator."""

    def __init__(self, policy: Policy = Policy.SYNC) -> None:
        self.now = NOW
        rules = Rules(policy=policy, sync_confirmed=True, drift=DriftMode.CORRECT)
        self.laws = OperatorLaws(rules, Image())
        self.server = ApiServer(lambda: self.now)
        self.server.on_write = lambda write: (
            self.laws.written(write) if write.writer == "operator" else None
        )
        self.image = Image()

    def declare(self, value: float, policy: DeletionPolicy | None = None) -> Obj:
        quota = client_quota(ALICE, {RATE: value}, policy=policy, suspended=False)
        obj = self.server.put("author", "clientquotas", quota)
        self.laws.specified(self.now, obj)
        self.note_documents()
        return obj

    def note_documents(self) -> None:
        self.laws.documents_changed(self.now, declarations(self.server.of("clientquotas")))

    def hold(self) -> None:
        obj = self.server.objects[PLACE]
        metadata = {**obj["metadata"], "finalizers": [FINALIZER]}
        _ = self.server._store(
            "operator", "patch", PLACE, {**obj, "metadata": metadata}, is_bound=True
        )

    def release(self) -> None:
        obj = self.server.objects[PLACE]
        metadata = {**obj["metadata"], "finalizers": []}
        _ = self.server._store(
            "operator", "patch", PLACE, {**obj, "metadata": metadata}, is_bound=True
        )

    def write(self, value: float | None) -> None:
        """Record an intent of the operator and commit the value."""
        self.laws.intended_by(self.now, "operator")
        _ = self.laws.histories[ALICE, RATE].intended(self.now, "operator", value)
        self.laws._mean("operator", [((ALICE, RATE), value)])
        self.laws.stored_intents[ALICE, RATE][value] = self.now
        self.commit(value, "operator")

    def commit(self, value: float | None, writer: str) -> None:
        records = (QuotaRecord(names=names_of(ALICE), key=RATE, value=value),)
        before, self.image = self.image, self.image.applied(records)
        self.laws.committed(Commit(self.now, writer, records, before, self.image))

    def record(self, value: float, policy: DeletionPolicy | None = None) -> None:
        owner = Owner(document=f"{TEAM}/{NAME_OF[ALICE]}", deletion_policy=policy)
        change = Recorded(entity=ALICE, key=RATE, value=value, owner=owner)
        owned = OwnershipRecords(cluster_id=CLUSTER_ID).with_changes([change])
        self.laws.recorded_as(self.now, "operator", owned)
        uids = {owner.document: self.server.objects[PLACE]["metadata"]["uid"]}
        self.laws.uids_recorded(self.now, uids)

    def delete(self) -> None:
        """Delete the document after its limit was applied."""
        _ = self.declare(100.0)
        self.hold()
        self.write(100.0)
        self.record(100.0)
        self.server.remove("author", PLACE)
        self.note_documents()

    def announce(self, value: float | None) -> None:
        """Record an intent in addition to the current records."""
        intent = Intent(value=value, owner=Owner(document=f"{TEAM}/{NAME_OF[ALICE]}"), at=self.now)
        started = IntentStarted(entity=ALICE, key=RATE, intent=intent)
        self.laws.recorded_as(self.now, "operator", self.laws.records.with_changes([started]))

    def show(self, **fields: Any) -> None:
        obj = self.server.objects[PLACE]
        ready = {"type": "Ready", "status": "True", "reason": "Synced"}
        key = {"key": RATE.value, "live": obj["spec"]["limits"]["producerByteRate"]}
        status = {
            "observedGeneration": obj["metadata"]["generation"],
            "conditions": [ready],
            "keys": [key],
            **fields,
        }
        _ = self.server._store("operator", "apply", PLACE, {**obj, "status": status}, is_bound=True)


@pytest.mark.parametrize("seconds", [0.0, SHOWN_SECONDS + 1])
def test_a_ready_status_for_a_value_that_was_never_live_is_reported(seconds: float) -> None:
    history = History()
    _ = history.declare(100.0)
    history.write(100.0)
    history.show()
    _ = history.declare(200.0)
    history.now += seconds
    with pytest.raises(LawBroken, match="says Ready and the value was never live"):
        history.show(lastHandledReconcileAt="now")


def test_a_document_released_before_its_limit_is_removed_is_reported() -> None:
    history = History()
    history.delete()
    with pytest.raises(LawBroken, match="is released and its limit is still there"):
        history.release()


def test_a_document_may_be_released_whose_limit_another_writer_set_to_the_same_value_again() -> (
    None
):
    history = History()
    history.delete()
    for value in (200.0, 100.0):
        history.commit(value, "foreign")
    history.release()


def test_a_document_that_records_mark_as_deleted_although_its_limit_can_be_removed_is_reported() -> (
    None
):
    history = History()
    history.delete()
    history.laws.uids_recorded(history.now, {})
    with pytest.raises(LawBroken, match="is released and its limit is still there"):
        history.release()


def test_a_removal_of_a_declared_limit_is_reported() -> None:
    history = History()
    _ = history.declare(100.0)
    history.write(100.0)
    history.now += LISTED_SECONDS + 1
    with pytest.raises(LawBroken, match="a declared value is removed"):
        history.write(None)


def test_records_of_values_that_were_never_applied_are_reported() -> None:
    history = History()
    _ = history.declare(100.0)
    with pytest.raises(LawBroken, match="records claim what was not applied"):
        history.record(100.0)


def test_a_ready_status_that_shows_another_value_for_long_is_reported() -> None:
    history = History()
    _ = history.declare(100.0)
    history.write(100.0)
    history.commit(300.0, "foreign")
    status_keys = [{"key": RATE.value, "live": 300.0}]
    history.show(keys=status_keys)
    history.now += SHOWN_SECONDS + 1
    with pytest.raises(LawBroken, match="says Ready and the value is not live"):
        history.show(keys=status_keys, lastHandledReconcileAt="now")


@pytest.mark.parametrize("older", [100.0, None])
def test_an_intent_for_an_older_declaration_is_reported(older: float | None) -> None:
    history = History()
    history.note_documents()
    for value in (100.0, 200.0) if older else (200.0,):
        history.now += 1
        _ = history.declare(value)
        history.write(value)
        history.record(value)
    with pytest.raises(LawBroken, match="an older declaration replaces a recorded one"):
        history.announce(older)


def test_a_write_without_an_intent_is_reported() -> None:
    history = History()
    _ = history.declare(100.0)
    with pytest.raises(LawBroken, match="a write that no record announced"):
        history.commit(100.0, "operator")


def test_more_removals_than_the_guard_allows_are_reported() -> None:
    history = History()
    history.laws.max_removals = 0
    _ = history.declare(100.0)
    history.write(100.0)
    history.server.remove("author", PLACE)
    history.note_documents()
    with pytest.raises(LawBroken, match="more removals than the guard allows"):
        history.write(None)


def test_a_value_that_is_written_for_a_released_document_is_reported() -> None:
    history = History()
    history.delete()
    history.write(None)
    history.release()
    with pytest.raises(LawBroken, match="a value is written for a released document"):
        history.announce(100.0)


def override_of(until: float) -> OverrideSet:
    override = Override(
        entity=ALICE,
        key=RATE,
        value=300.0,
        until=until,
        before=100.0,
        author="oncall",
        reason="scripted",
    )
    return OverrideSet(override=override)


def test_an_override_that_an_operator_drops_in_its_time_is_reported() -> None:
    history = History()
    _ = history.declare(100.0)
    owned = OwnershipRecords(cluster_id=CLUSTER_ID)
    overridden = owned.with_changes([override_of(NOW + 600.0)])
    history.laws.recorded_as(NOW, "override-1", overridden)
    with pytest.raises(LawBroken, match="an override is lost"):
        history.laws.recorded_as(NOW, "operator", owned)


def test_a_write_without_a_resource_version_is_reported() -> None:
    history = History()
    obj = history.declare(100.0)
    with pytest.raises(LawBroken, match="not bound to a version"):
        _ = history.server._store("operator", "apply", PLACE, {**obj, "status": {"x": 1}})


@dataclass
class CandidateOnPaper:
    """A candidate with a fixed leadership."""

    leading: bool

    @property
    def leads_on(self) -> bool:
        return self.leading


def leaders(*leading: bool) -> str:
    """Return the law that is violated if the first of several processes alters quotas."""
    world = OperatorWorld(scenario_of(1, "operator"))
    for number, leads in enumerate(leading):
        process = world.process("operator")
        world.candidates[process.name] = CandidateOnPaper(leads)
        if not number:
            first = process
    world.alters(first, world.candidates[first.name])
    violation = world.violation
    world._close()
    return violation


def lease_writes(*holders: str, leads: bool) -> str:
    """Return the law that is violated if the Lease gets these holders while another process leads or does not."""
    world = OperatorWorld(scenario_of(1, "operator"))
    process = world.process("operator-a")
    world.candidates[process.name] = CandidateOnPaper(leads)
    for holder in holders:
        lease = {"metadata": {"name": "lease"}, "spec": {"holderIdentity": holder}}
        _ = world.server.put("operator-b-2", "leases", lease)
    violation = world.violation
    world._close()
    return violation


def test_a_lease_that_is_taken_from_a_leader_is_reported() -> None:
    assert lease_writes("a", "b", leads=True).startswith("two leaders: operator-b-2 takes")


def test_a_status_that_is_written_again_at_rest_is_reported() -> None:
    world = OperatorWorld(scenario_of(1, "operator"))
    obj = world.server.put(
        "author", "clientquotas", client_quota(ALICE, {RATE: 1.0}, policy=None, suspended=False)
    )
    for _ in range(2):
        _ = world.server._store("operator-a-1", "apply", PLACE, obj)
    assert not world.violation
    world.at_rest = True
    _ = world.server._store("operator-a-1", "apply", PLACE, obj)
    violation = world.violation
    world._close()
    assert violation.startswith("a status is written again although nothing has changed")


@pytest.mark.parametrize(("drifted", "is_reported"), [("Unknown", True), ("False", False)])
def test_a_document_that_does_not_say_after_the_faults_whether_it_drifted_is_reported(
    drifted: str, is_reported: bool
) -> None:
    world = OperatorWorld(scenario_of(1, "operator"))
    quota = client_quota(ALICE, {RATE: 1.0}, policy=None, suspended=False)
    obj = world.server.put("author", "clientquotas", quota)
    conditions = [
        {"type": "Ready", "status": "True", "reason": "Synced"},
        {"type": "Drifted", "status": drifted},
    ]
    status = {"observedGeneration": obj["metadata"]["generation"], "conditions": conditions}
    world.server.replace_status("operator-a-1", PLACE, status)
    problems = list(world._unready())
    world._close()
    assert (
        problems == [f"{TEAM}/{NAME_OF[ALICE]} does not say whether it has drifted"] * is_reported
    )


def test_a_former_leader_that_alters_quotas_is_reported() -> None:
    assert leaders(False, True).startswith("a deposed leader alters quotas")


def test_two_leaders_are_reported() -> None:
    assert leaders(True, True).startswith("two leaders")
