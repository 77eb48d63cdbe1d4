"""Changes during partial reconciliations: no removal without request, and the final state is as declared."""

from collections.abc import Sequence
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconciler.quota.entity import Entity
from tests.kube.test_partial_reconciliation import ENTITIES, VALUES, WatchedWorld
from tests.kube.worlds import seen
from tests.reconcile.scenarios import OPEN

NAMES = st.sampled_from(("a", "b", "c"))
POLICIES = ({}, {"deletionPolicy": "Delete"}, {"deletionPolicy": "Delete"}, {"suspend": True})
ACTIONS = st.one_of(
    st.tuples(
        st.just("declare"),
        NAMES,
        st.sampled_from(ENTITIES[:3]),
        st.sampled_from(VALUES),
        st.sampled_from(POLICIES),
    ),
    st.tuples(st.just("remove"), NAMES),
    # It retains its limit from now on, another program removes the finalizer, and it is deleted.
    st.tuples(st.just("abandon"), NAMES),
)
STEPS = st.tuples(
    st.lists(ACTIONS, min_size=1, max_size=2), st.integers(1, 16), st.lists(ACTIONS, max_size=2)
)


class ChangingWorld(WatchedWorld):
    """A world that records the entities whose limits may be removed.

    Attributes:
        removable: The entities of documents that ended with the policy Delete.
        reported: The documents that the next reconciliation is for.
    """

    def __init__(self, policy: str) -> None:
        self.removable: set[Entity | None] = set()
        self.reported: list[str] = []
        self.default = "Delete" if policy == "Sync" else "Retain"
        super().__init__(
            confirm_after=2,
            guards=OPEN,
            policy=policy,
            expectedClusterId="fake-cluster",
            confirmSync="fake-cluster",
        )

    def act(self, action: tuple[Any, ...]) -> str:
        """Execute an action; return its document."""
        if action[0] == "declare":
            _, name, subject, value, spec = action
            return self.declare(name, subject, value, **spec)
        kind, name = action
        obj = self.objects.get(f"team/{name}")
        if obj is not None and not obj["metadata"].get("deletionTimestamp"):
            if kind == "abandon":
                _ = self.declare(name, ENTITIES[0], VALUES[0], deletionPolicy="Retain")
                self.objects[f"team/{name}"]["metadata"]["finalizers"] = []
            elif obj["spec"].get("deletionPolicy", self.default) == "Delete":
                self.removable.add(seen(obj).entity)
        return self.remove(name)

    def during(self, request: int, actions: Sequence[tuple[Any, ...]]) -> None:
        """Execute an action directly before a request of the next reconciliation."""
        requests = 0

        def before(*_: object) -> None:
            nonlocal requests
            requests += 1
            if requests == request:
                self.reported.extend(map(self.act, actions))

        self.api.before = self.kafka.faults.before = before

    def settle(self) -> None:
        """Resync until nothing changes."""
        self.during(0, ())
        for _ in range(5):
            self.clock.advance(3.0)
            _ = self.reconcile(resync=True)


@settings(suppress_health_check=list(HealthCheck))
@given(steps=st.lists(STEPS, min_size=1, max_size=6), policy=st.sampled_from(("Upsert", "Sync")))
def test_nothing_is_removed_without_a_deletion_and_the_final_state_is_the_declared_one(
    steps: list[tuple[list[tuple[Any, ...]], int, list[tuple[Any, ...]]]], policy: str
) -> None:
    world = ChangingWorld(policy)
    for name, subject in zip("abc", ENTITIES, strict=False):
        _ = world.declare(name, subject, VALUES[0], deletionPolicy="Delete")
    _ = world.turn(resync=True)
    for actions, request, meanwhile in steps:
        keys = dict.fromkeys([*world.reported, *map(world.act, actions)])
        world.reported.clear()
        world.during(request, meanwhile)
        live = set(world.kafka.truth.limits)
        _ = world.reconcile(keys=tuple(keys))
        assert live - world.kafka.truth.limits.keys() <= world.removable
    live = set(world.kafka.truth.limits)
    world.settle()
    assert live - world.kafka.truth.limits.keys() <= world.removable
    for document, obj in world.objects.items():
        assert not obj["metadata"].get("deletionTimestamp")
        expected = {"Suspended"} if obj["spec"].get("suspend") else {"Synced", "Conflict"}
        assert world.reason(document) in expected
    state = world.snapshot()
    world.restart()
    world.settle()
    assert world.snapshot() == state
