"""Values that a person changes outside kquota: reported, left or corrected by mode; spec changes are separate."""

import pytest

from tests.kube.e2e.seeing import audited
from tests.kube.e2e.world import Operator, World, eventually
from tests.servers import raw_quotas

pytestmark = pytest.mark.integration

MIB = 1048576.0


def _set(world: World, user: str, rate: float) -> None:
    """As `World.behind_our_back`, without the two seconds of a JVM start."""
    raw_quotas.set_quotas(
        world.kafka.port(), {raw_quotas.entity(user=user): {"producer_byte_rate": rate}}
    )


def _event_count(world: World, name: str, reason: str) -> int:
    """The number of events of an object with this reason."""
    return sum(
        event["reason"] == reason and event["regarding"]["name"] == name for event in world.events()
    )


def _two_more_reconciliations(operator: Operator) -> None:
    before = operator.metric("kquota_passes_total", cluster="prod")
    eventually(lambda: operator.metric("kquota_passes_total", cluster="prod") >= before + 3)


def test_drift_is_reported_once_with_its_first_time_and_a_change_of_the_spec_is_not_drift(
    world: World,
) -> None:
    ignored = [{"user": {"exact": "ignored"}, "reason": "set by hand during the migration"}]
    world.cluster(ignore=ignored)
    operator = world.start()
    for name in ("alice", "carol", "ignored"):
        world.quota(name)
    for name in ("alice", "carol", "ignored"):
        world.becomes(name, "Synced")

    world.behind_our_back("alice", producer_byte_rate=5 * MIB)
    _set(world, "ignored", 3 * MIB)
    world.quota("carol", limits={"producerByteRate": "2Mi"})
    status = world.becomes("alice", "Drifted")["status"]
    assert world.condition("alice", "Drifted")["status"] == "True"
    assert world.condition("alice", "Ready")["status"] == "True"
    (drift,) = status["drift"]
    assert (drift["expected"], drift["live"]) == (MIB, 5 * MIB)
    first_seen = drift["firstSeen"]
    differences = eventually(
        lambda: world.get("prod", kind="quotacluster")["status"].get("drift"),
        what="the QuotaCluster to tell of it",
    )
    assert [(difference["entity"], difference["live"]) for difference in differences] == [
        ("user=alice", 5 * MIB)
    ]
    _two_more_reconciliations(operator)
    assert world.live()["alice"] == {"producer_byte_rate": 5 * MIB}, "Warn writes nothing"
    assert world.live()["ignored"] == {"producer_byte_rate": 3 * MIB}
    assert _event_count(world, "alice", "DriftDetected") == 1
    for name in ("carol", "ignored"):
        world.becomes(name, "Synced")
        assert world.condition(name, "Drifted").get("status") != "True"
        assert _event_count(world, name, "DriftDetected") == 0

    # A new process knows the time of the first observation, and does not notify again.
    assert operator.stop() == 0
    with world.counted() as writes:
        operator = world.start()
        _two_more_reconciliations(operator)
    events = [(event["reason"], event["note"]) for event in world.events("default")]
    assert writes == {}, events
    assert world.get("alice")["status"]["drift"][0]["firstSeen"] == first_seen

    # A new value in the spec is written, independent of drift.
    world.quota("alice", limits={"producerByteRate": "4Mi"})
    status = world.becomes("alice", "Synced")["status"]
    assert "drift" not in status
    assert world.live()["alice"] == {"producer_byte_rate": 4 * MIB}
    assert world.condition("alice", "Drifted")["status"] == "False"
    assert _event_count(world, "alice", "DriftDetected") == 1


def test_disabled_reports_no_drift_and_correct_writes_back_until_another_writer_reverts_it(
    world: World,
) -> None:
    world.cluster(driftDetection="Disabled", interval="1s")
    operator = world.start()
    for name in ("alice", "bob"):
        world.quota(name)
    for name in ("alice", "bob"):
        world.becomes(name, "Synced")
    _set(world, "alice", 2 * MIB)
    _two_more_reconciliations(operator)
    assert world.reason("alice") == "Synced"
    assert world.condition("alice", "Drifted").get("status") != "True"
    assert world.live()["alice"] == {"producer_byte_rate": 2 * MIB}

    world.cluster(driftDetection="Correct", interval="1s")
    eventually(lambda: world.live()["alice"] == {"producer_byte_rate": MIB}, what="a correction")
    eventually(lambda: _event_count(world, "alice", "DriftCorrected") == 1)
    # A removed value is drift, too; Kafka's own tool removes it.
    world.behind_our_back("bob", producer_byte_rate=None)
    eventually(lambda: world.live().get("bob") == {"producer_byte_rate": MIB}, what="a correction")
    # Another writer that changes the value repeatedly is reported, and not corrected any more.
    for round_ in range(2, 4):
        _set(world, "alice", (round_ + 1) * MIB)
        eventually(lambda: world.live()["alice"] == {"producer_byte_rate": MIB}, what=f"{round_}")
    _set(world, "alice", 9 * MIB)
    world.becomes("alice", "FoughtOver")
    _two_more_reconciliations(operator)
    assert world.live()["alice"] == {"producer_byte_rate": 9 * MIB}
    assert world.condition("alice", "Stalled")["status"] == "True"
    assert _event_count(world, "alice", "FoughtOver") == 1
    assert world.reason("bob") == "Synced", "other values are corrected as before"
    corrections = [entry for entry in audited(operator) if "alice" in str(entry["entity"])]
    assert len(corrections) == 1 + 3
