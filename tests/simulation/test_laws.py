"""Tests of each law with a hand-made history that violates it."""

import json
from datetime import UTC, datetime
from itertools import count

import pytest
from msgspec.structs import replace

from reconciler.inventory.format import encode
from reconciler.quota.entity import ABSENT, DEFAULT, Entity, entity
from reconciler.quota.keys import Key
from reconciler.quota.ownership import Intent, IntentStarted, Owner, OwnershipRecords, Recorded
from reconciler.quota.patterns import EntityPattern, NamePattern
from reconciler.quota.planner.desired_state import Declaration
from reconciler.quota.policy import DeletionPolicy, DriftMode, Policy, Rules
from reconciler.quota.state import limits_of
from reconciler.sandbox.broker_rules.image import Image, QuotaRecord
from tests.policies import SWEEPING
from tests.simulation.brokers import CLUSTER_ID, Commit
from tests.simulation.laws import LawBroken, Laws, Run, names_of
from tests.simulation.scenario import Scenario, settings_of
from tests.simulation.world import World

ALICE, APP, EVERYONE = (
    entity(user="alice"),
    entity(user="alice", client_id="app"),
    entity(user=DEFAULT),
)
RATE = Key.PRODUCER_BYTE_RATE
NOW = 1_700_000_000.0
SYNC = Rules(policy=Policy.SYNC, sync_confirmed=True, drift=DriftMode.CORRECT)


def instant(seconds: float) -> str:
    return datetime.fromtimestamp(int(seconds), UTC).isoformat().replace("+00:00", "Z")


def entity_json(subject: Entity) -> list[list[str | None]]:
    return [[kind, name] for kind, name in names_of(subject)]


class History:
    """A hand-made history of the product."""

    def __init__(self, rules: Rules = SYNC) -> None:
        self.laws = Laws(rules, Image())
        self.image = Image()
        self.now = NOW

    def run(self, *documents: Declaration) -> Run:
        run = Run(process="watch", started=self.now, documents={d.document: d for d in documents})
        self.laws.began(run)
        return run

    def intend(self, *values: tuple[Entity, float | None]) -> None:
        for subject, value in values:
            self.laws.stored_intents[subject, RATE][value] = self.now
        self.line(*((subject, value, "INTENDED") for subject, value in values))

    def line(self, *entries: tuple[Entity, float | None, str]) -> None:
        lines = [
            json.dumps(
                {
                    "time": instant(self.now),
                    "entity": entity_json(subject),
                    "key": RATE.value,
                    "after": value,
                    "outcome": outcome,
                }
            )
            for subject, value, outcome in entries
        ]
        self.laws.audited(self.now, "watch", "\n".join(lines).encode())

    def commit(self, subject: Entity, value: float | None, writer: str = "watch") -> None:
        self.now += 1.0
        record = QuotaRecord(names=names_of(subject), key=RATE.value, value=value)
        after = self.image.applied((record,))
        commit = Commit(self.now, writer, (record,), self.image, after)
        self.image = after
        self.laws.committed(commit)

    def write(self, subject: Entity, value: float | None) -> None:
        self.intend((subject, value))
        self.commit(subject, value)

    def record(self, subject: Entity, value: float) -> None:
        change = Recorded(entity=subject, key=RATE, value=value, owner=Owner(document="team/a"))
        owned = OwnershipRecords(cluster_id=CLUSTER_ID).with_changes([change])
        self.laws.recorded(self.now, "watch", encode({CLUSTER_ID: owned}))


def declares(subject: Entity, value: float, policy: DeletionPolicy | None = None) -> Declaration:
    return Declaration(
        document=f"team/{subject}",
        entity=subject,
        limits=limits_of({RATE: value}),
        deletion_policy=policy,
    )


def test_a_correct_history_breaks_no_law():
    history = History()
    history.run(declares(ALICE, 1.0))
    history.write(ALICE, 1.0)
    history.line((ALICE, 1.0, "APPLIED"))
    history.record(ALICE, 1.0)
    history.run()
    history.write(ALICE, None)
    history.line((ALICE, None, "APPLIED"))
    history.laws.check_histories()


def test_a_write_that_no_document_declares_is_reported():
    history = History()
    history.run(declares(ALICE, 1.0))
    with pytest.raises(LawBroken, match="a value that was not requested"):
        history.write(ALICE, 2.0)


def test_a_write_without_an_audit_entry_is_reported():
    history = History()
    history.run(declares(ALICE, 1.0))
    history.intend((ALICE, 1.0))
    history.commit(ALICE, 1.0, writer="watch of another machine")
    with pytest.raises(LawBroken, match="does not explain the brokers' log"):
        history.laws.check_histories()


def test_a_write_under_observe_is_reported():
    history = History(Rules(policy=Policy.OBSERVE))
    history.run(declares(ALICE, 1.0))
    with pytest.raises(LawBroken, match="under policy Observe"):
        history.write(ALICE, 1.0)


def test_a_write_outside_the_scope_is_reported():
    history = History(replace(SYNC, scope=(EntityPattern(user=NamePattern(exact="bob")),)))
    history.run(declares(ALICE, 1.0))
    with pytest.raises(LawBroken, match="outside the scope"):
        history.write(ALICE, 1.0)


def test_the_removal_of_a_declared_value_is_reported():
    history = History()
    history.run(declares(ALICE, 1.0))
    history.write(ALICE, 1.0)
    with pytest.raises(LawBroken, match="a declared value is removed"):
        history.write(ALICE, None)


def test_the_removal_of_another_writers_value_is_reported():
    history = History()
    history.commit(ALICE, 7.0, writer="foreign")
    history.now += 100.0
    history.run()
    with pytest.raises(LawBroken, match="a removal that was not requested"):
        history.write(ALICE, None)


@pytest.mark.parametrize(
    ("rules", "policy", "law"),
    [
        (SYNC, DeletionPolicy.RETAIN, "although its document said Retain"),
        (Rules(policy=Policy.UPSERT), None, "under Upsert without a deletionPolicy"),
    ],
    ids=["Retain", "unset under Upsert"],
)
def test_the_removal_of_a_retained_value_is_reported(rules, policy, law):
    history = History(rules)
    document = declares(ALICE, 1.0, policy)
    history.run(document)
    history.write(ALICE, 1.0)
    owner = Owner(document=document.document, deletion_policy=policy)
    history.laws.records = OwnershipRecords(cluster_id=CLUSTER_ID).with_changes(
        [Recorded(entity=ALICE, key=RATE, value=1.0, owner=owner)]
    )
    history.now += 100.0
    history.run()
    with pytest.raises(LawBroken, match=law):
        history.write(ALICE, None)


def test_a_removal_under_create_only_is_reported():
    history = History(Rules(policy=Policy.CREATE_ONLY))
    history.run(declares(ALICE, 1.0))
    history.write(ALICE, 1.0)
    history.now += 100.0
    history.run()
    with pytest.raises(LawBroken, match="under policy CreateOnly"):
        history.write(ALICE, None)


def test_a_limit_replaced_under_create_only_is_reported():
    history = History(Rules(policy=Policy.CREATE_ONLY))
    history.commit(ALICE, 7.0, writer="foreign")
    history.now += 100.0
    history.run(declares(ALICE, 1.0))
    with pytest.raises(LawBroken, match="replaced under policy CreateOnly"):
        history.write(ALICE, 1.0)


def test_records_under_observe_are_reported():
    history = History(Rules(policy=Policy.OBSERVE))
    history.run(declares(ALICE, 1.0))
    history.commit(ALICE, 1.0, writer="foreign")
    with pytest.raises(LawBroken, match="records under policy Observe"):
        history.record(ALICE, 1.0)


def test_a_write_for_a_suspended_document_is_reported():
    history = History()
    history.run(replace(declares(ALICE, 1.0), suspended=True))
    with pytest.raises(LawBroken, match="a value that was not requested"):
        history.write(ALICE, 1.0)


def test_the_removal_of_a_value_of_a_suspended_document_is_reported():
    history = History()
    document = declares(ALICE, 1.0)
    history.run(document)
    history.write(ALICE, 1.0)
    owner = Owner(document=document.document)
    history.laws.records = OwnershipRecords(cluster_id=CLUSTER_ID).with_changes(
        [Recorded(entity=ALICE, key=RATE, value=1.0, owner=owner)]
    )
    history.laws.runs.clear()
    history.now += 100.0
    history.run(replace(document, limits=limits_of({}), suspended=True))
    with pytest.raises(LawBroken, match="although its document is suspended"):
        history.write(ALICE, None)


def test_a_write_without_an_intent_is_reported():
    history = History()
    history.run(declares(ALICE, 1.0))
    with pytest.raises(LawBroken, match="a write that no record announced"):
        history.commit(ALICE, 1.0)


@pytest.mark.parametrize("drift", [DriftMode.WARN, DriftMode.DISABLED])
def test_an_intent_to_correct_drift_without_correction_enabled_is_reported(drift):
    history = History(replace(SYNC, drift=drift))
    history.run(declares(ALICE, 1.0))
    history.write(ALICE, 1.0)
    history.record(ALICE, 1.0)
    history.commit(ALICE, 7.0, writer="foreign")
    started = IntentStarted(
        entity=ALICE, key=RATE, intent=Intent(value=1.0, owner=Owner(document="team/a"))
    )
    with pytest.raises(LawBroken, match="drift is corrected under"):
        history.laws.recorded_as(history.now, "watch", history.laws.records.with_changes([started]))


def test_a_command_that_removes_more_than_its_guard_allows_is_reported():
    history = History()
    history.laws.max_removals = 1
    history.run(declares(ALICE, 1.0), declares(APP, 1.0))
    history.write(APP, 1.0)
    history.write(ALICE, 1.0)
    history.laws.began(Run(process="apply", started=history.now, documents={}))
    removals = [((ALICE, RATE), None), ((APP, RATE), None)]
    history.laws._mean("apply", removals[:1])
    with pytest.raises(LawBroken, match="a command removes more than its guard allows"):
        history.laws._mean("apply", removals[1:])


def test_an_intent_outside_a_run_is_reported():
    with pytest.raises(LawBroken, match="outside of a run"):
        History().intend((ALICE, 1.0))


def test_a_wider_set_before_a_closer_one_is_reported():
    history = History()
    history.run(declares(APP, 1.0), declares(EVERYONE, 5.0))
    history.intend((APP, 1.0), (EVERYONE, 5.0))
    with pytest.raises(LawBroken, match="neither before nor after"):
        history.commit(EVERYONE, 5.0)


def test_records_of_values_that_were_never_live_are_reported():
    history = History()
    history.run(declares(ALICE, 1.0))
    with pytest.raises(LawBroken, match="records claim"):
        history.record(ALICE, 1.0)


@pytest.mark.parametrize("outcome", ["APPLIED", "HELD", "REJECTED", "NOT SENT", "NOT LANDED"])
def test_an_audit_entry_that_contradicts_the_brokers_is_reported(outcome):
    history = History()
    history.run(declares(ALICE, 1.0))
    history.intend((ALICE, 1.0))
    if outcome != "APPLIED":
        history.commit(ALICE, 1.0)
        history.now += 100.0
    if outcome == "NOT LANDED":
        history.run(declares(ALICE, 1.0))
    entry = {
        "time": instant(history.now),
        "intendedAt": instant(NOW),
        "entity": entity_json(ALICE),
        "key": RATE.value,
        "after": 1.0,
        "outcome": outcome,
    }

    def judge() -> None:
        history.laws.audited(history.now, "watch", json.dumps(entry).encode())
        history.laws.check_histories()

    with pytest.raises(LawBroken, match=r"the audit log (says|does not explain)"):
        judge()


def test_the_log_and_the_planner_name_entities_alike():
    assert names_of(Entity(("alice", None, ABSENT))) == (("client-id", None), ("user", "alice"))


def test_a_write_to_another_cluster_is_reported():
    world = World(Scenario(seed=1))
    world.brokers.other.commit([QuotaRecord(names=names_of(ALICE), key=str(RATE), value=1.0)])
    world.loop.close()
    assert world.violation.startswith("a write to another cluster")


class Restless(World):
    """A world in which a document is added after it has converged."""

    def _heal(self):
        super()._heal()
        self.loop.call_later(61.0 + self.settings.interval + 60.0, self._declare_late)

    def _declare_late(self):
        self.documents["late"] = declares(entity(user="stranger"), 100_000.0)


class Negligent(World):
    """A world in which the product does not read the last document."""

    rest_seconds = 600.0

    def _heal(self):
        super()._heal()
        self.documents["last"] = declares(entity(user="stranger"), 100_000.0)

    def documents_read(self, chance, *, may_differ):
        return {name: each for name, each in self.documents.items() if name != "last"}, True


def rest_of(world: type[World]) -> str:
    """Return the law that a world with only the loop and without faults violates."""
    for seed in count(1):
        scenario = Scenario(seed=seed, days=0.001, actors=("watch",), faults=())
        rules = settings_of(scenario).rules
        if rules.in_force in SWEEPING:
            return world(scenario).run().violation
    raise AssertionError("seeds do not end")


def test_a_world_that_does_not_reach_the_declared_state_is_reported():
    assert rest_of(Negligent).startswith("not as declared 600 s after the last fault")


def test_a_world_that_writes_without_changes_is_reported():
    assert rest_of(Restless) == "writes although nothing has changed"
