"""Laws of the state in Kubernetes: a restart loses and writes nothing, a second reconciliation writes nothing."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.quota.policy import Policy
from tests.fakes.cluster import LANDED, LOST
from tests.hypothesis_profiles import count_examples
from tests.kube.crd_schema import faults
from tests.kube.scenarios import CREATED, kube_world, meddle
from tests.kube.worlds import KubeWorld, resource
from tests.quota import strategies as some
from tests.reconcile.scenarios import ALICE, ALICE_SHOP, BOB, RATE

TIMES = ("2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z")


@st.composite
def documents(draw, namespaces=("team", "other")):
    """Some ClientQuotas, including competing, suspended, invalid and terminating ones."""
    objects = []
    for number in range(draw(st.integers(1, 5))):
        subject = draw(st.sampled_from([entity for entity in some.FEW if entity[0] != ""]))
        limits = draw(some.limits(subject, st.sampled_from([2000.0, 3000.0, -1.0])))
        objects.append(
            resource(
                f"d{number}",
                subject,
                {key: int(v) for key, v in zip(some.COLUMNS, limits, strict=True) if v is not None},
                namespace=draw(st.sampled_from(namespaces)),
                created=draw(st.sampled_from(TIMES)),
                **draw(
                    st.sampled_from(
                        [
                            {},
                            {},
                            {"suspend": True},
                            {"deletionPolicy": "Delete"},
                            {"deletionPolicy": "Retain"},
                        ]
                    )
                ),
            )
        )
    return objects


SPECS = st.fixed_dictionaries(
    {
        "policy": st.sampled_from([str(policy) for policy in Policy if policy is not Policy.SYNC]),
        "driftDetection": st.sampled_from(["Disabled", "Warn", "Correct"]),
    }
)
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["meddle", "remove", "delete", "hold", "edit", "reject", "lose", "land"]),
        st.integers(0, 4),
        st.sampled_from([1500.0, 2000.0, 2500.0]),
    ),
    max_size=4,
)


def happen(world: KubeWorld, event: str, number: int, value: float) -> None:
    names = sorted(world.objects)
    if not names:
        return
    name = names[number % len(names)]
    subject = some.FEW[number % len(some.FEW)]
    key = some.keys_of(subject)[0]
    match event:
        case "meddle":
            world.kafka.write(subject, key, value)
        case "remove":
            world.kafka.write(subject, key, None)
        case "delete":
            world.delete(name, finalizer=False)
        case "hold":
            world.delete(name, finalizer=True)
        case "edit":
            obj = world.objects[name]
            limits = dict.fromkeys(obj["spec"]["limits"], int(value))
            world.put({**obj, "spec": {**obj["spec"], "limits": limits}})
        case "reject":
            world.kafka.faults.rejected[subject] = (42, "INVALID_REQUEST", "no")
        case "lose":
            world.kafka.faults.unknown[subject] = LOST
        case _:
            world.kafka.faults.unknown[subject] = LANDED


def _ran(documents, spec, happenings):
    world = KubeWorld({ALICE: {RATE: 2000.0}, BOB: {RATE: 7000.0}}, **spec)
    world.put(*documents)
    world.run()
    for event in happenings:
        happen(world, *event)
        world.run()
        world.clock.advance(100)
    return world


@settings(max_examples=count_examples(50))
@given(documents(), SPECS, EVENTS)
def test_after_any_history_a_restart_writes_nothing(documents, spec, happenings):
    world = _ran(documents, spec, happenings)
    # Pending writes are settled first, and corrections end.
    world.kafka.faults.unknown.clear()
    # Less than ten minutes in total, after which the time of the last sync is reported again.
    for _ in range(4):
        world.run()
        world.clock.advance(30)
    world.writes.clear()
    world.happened.clear()
    world.restart()
    world.run()
    assert world.writes == []
    assert world.happened == []


@given(documents(), SPECS, EVENTS)
def test_the_api_server_accepts_every_status(documents, spec, happenings):
    world = _ran(documents, spec, happenings)
    for obj in world.objects.values():
        assert faults("ClientQuota", obj["status"]) == []
    assert faults("QuotaCluster", world.obj["status"]) == []


SETTLED = [
    "Synced",
    "Conflict",
    "BrokerRejected",
    "Drifted",
    "Suspended",
    "Invalid",
    "GuardRefused",
    "Held",
]


def _standing(reason):
    world = kube_world(None, CREATED, guards=None)
    match reason:
        case "Conflict":
            world.put(resource("b", ALICE, {RATE: 1}, created="2020-01-01T00:00:00Z"))
        case "BrokerRejected":
            world.kafka.faults.rejected[ALICE] = (42, "INVALID_REQUEST", "no")
        case "Drifted":
            world.run()
            meddle(world)
        case "Suspended":
            world.put(resource("a", ALICE, {RATE: 4096}, suspend=True))
        case "Invalid":
            world.put(resource("a", ALICE, {RATE: -5}))
        case "GuardRefused":
            world.run()
            world.put(resource("a", ALICE, {RATE: 40960000}))
        case "Held":
            world.put(resource("closer", ALICE_SHOP, {RATE: 2048}))
            world.kafka.faults.rejected[ALICE_SHOP] = (42, "INVALID_REQUEST", "no")
    return world


@pytest.mark.parametrize("reason", SETTLED)
def test_a_restart_writes_nothing_for_every_reason(reason):
    world = _standing(reason)
    world.run()
    assert world.reason("team/a") == reason
    for _ in range(3):
        world.writes.clear()
        world.restart()
        world.clock.advance(100)
        world.run()
        assert set(world.writes) <= {"configmap"}  # An intent and its end, for retries.
    assert world.reason("team/a") == reason


def test_a_pair_whose_corrections_are_reverted_is_not_corrected_by_the_next_process():
    world = kube_world(None, CREATED, driftDetection="Correct")
    world.run()
    for number in range(5):
        meddle(world, 9999.0 + number)
        world.run()
        world.clock.advance(10)
    assert world.reason("team/a") == "FoughtOver"
    world.restart()
    world.kafka.sent.clear()
    for number in range(3):
        meddle(world, 20_000.0 + number)
        world.run()
        world.clock.advance(10)
        assert world.reason("team/a") == "FoughtOver"
    assert world.kafka.sent == []
    world.clock.advance(4000)
    world.restart()
    world.run()
    assert world.kafka.sent, "the window is over"
