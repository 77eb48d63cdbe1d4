"""The law of removals, over random histories: only values that kquota applied are removed.

A history has crashes at any request and around any record, lost and late writes, other writers with the same few
values, documents that are created and deleted with any deletion policy, and policies that change. A removal may be
planned only for a live value that

- a write of kquota set, or a document declared while it was live (adopted); or
- an intent names, which no describe contradicted 65 s or more after it was recorded.

The oracle reads the log of the cluster, the documents and the written inventory; it uses no code of the planner.
"""

import asyncio
import contextlib
from dataclasses import dataclass

from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.errors import KquotaError
from reconciler.inventory.memory import MemoryInventory
from reconciler.quota.entity import Entity
from reconciler.quota.ownership import SETTLING_SECONDS, IntentStarted, OwnershipRecords, Pair
from reconciler.quota.planner.desired_state import DesiredState, merge
from reconciler.quota.policy import Cause, DeletionPolicy, Policy, Rules
from reconciler.reconcile import apply, prepare
from tests.fakes.cluster import LANDED, LATE, LOST
from tests.hypothesis_profiles import count_examples
from tests.reconcile.scenarios import ALICE, BOB, RATE, World, declared

NO_CRASH, BEFORE_RECORD, AFTER_RECORD, BEFORE_ALTER, AFTER_ALTER = range(5)
VALUES = (3000.0, 4000.0)


@dataclass(frozen=True)
class Foreign:
    """Another writer sets or removes a value."""

    entity: Entity
    value: float | None


@dataclass(frozen=True)
class Documents:
    """The declared documents from now on."""

    values: tuple[tuple[Entity, float | None, DeletionPolicy | None], ...]


@dataclass(frozen=True)
class Wait:
    """Time passes."""

    seconds: float


@dataclass(frozen=True)
class LateWrites:
    """Requests of unknown outcome reach the log."""


@dataclass(frozen=True)
class Run:
    """One apply under a policy; the process may end during it, and the request may have any outcome."""

    policy: Policy = Policy.SYNC
    crash: int = NO_CRASH
    fate: str | None = None


Step = Foreign | Documents | Wait | LateWrites | Run

_ENTITIES = st.sampled_from([ALICE, BOB])
_DOCUMENT = st.tuples(
    _ENTITIES,
    st.none() | st.sampled_from(VALUES),
    st.none() | st.sampled_from(list(DeletionPolicy)),
)
STEPS: st.SearchStrategy[Step] = st.one_of(
    st.builds(Foreign, _ENTITIES, st.none() | st.sampled_from(VALUES)),
    st.builds(
        Documents,
        st.lists(_DOCUMENT, max_size=2, unique_by=lambda document: document[0]).map(tuple),
    ),
    st.builds(Wait, st.sampled_from([1.0, 66.0])),
    st.just(LateWrites()),
    st.builds(
        Run,
        st.sampled_from(list(Policy)),
        st.integers(0, 4),
        st.sampled_from([None, LOST, LANDED, LATE]),
    ),
    st.builds(Run, st.sampled_from([Policy.UPSERT, Policy.SYNC]), st.integers(0, 4)),
    st.builds(Run, st.sampled_from([Policy.UPSERT, Policy.SYNC])),
)


class CrashError(BaseException):
    """The process ends here; nothing may catch it."""


class WatchedInventory(MemoryInventory):
    """Records which intents reached it, and is killed before or after its first write of a run."""

    def __init__(self, history: "History") -> None:
        super().__init__(OwnershipRecords(cluster_id="fake-cluster"))
        self.crash = NO_CRASH
        self._history = history

    async def write(self, cluster_id, changes):
        if self.crash == BEFORE_RECORD:
            raise CrashError
        await super().write(cluster_id, changes)
        self._history.was_written(changes)
        if self.crash == AFTER_RECORD:
            raise CrashError


class History:
    """One cluster with all its events, and the values that kquota applied."""

    def __init__(self) -> None:
        self.world = World({})
        self.inventory = WatchedInventory(self)
        self.world.inventory = self.inventory
        self.world.ports = replace(self.world.ports, inventory=self.inventory)
        self.desired: DesiredState = merge([])
        self.ours: dict[Pair, set[float | None]] = {}
        self.open: dict[Pair, dict[float | None, float]] = {}
        self.described_at = 0.0
        self.described = self.world.cluster.truth
        self.foreign_entries = 0
        self._commit = self.world.cluster._commit
        self.world.cluster._commit = self._note_own_write

    def _note_own_write(self, alteration):
        self._commit(alteration)
        for name, value in alteration.operations:
            self.ours[alteration.entity, type(RATE)(name)] = {value}

    def was_written(self, changes) -> None:
        """Records reached the inventory: intents that the describe before contradicts are closed."""
        for pair, values in self.open.items():
            for value, at in list(values.items()):
                late = self.described_at >= at + SETTLING_SECONDS
                if late and self.described.value(*pair) != value:
                    del values[value]
        for change in changes:
            if isinstance(change, IntentStarted):
                pair = change.entity, change.key
                self.open.setdefault(pair, {})[change.intent.value] = change.intent.at

    def do(self, step: Step) -> None:
        cluster = self.world.cluster
        match step:
            case Foreign(entity, value):
                cluster.write(entity, RATE, value)
            case Documents(values):
                self.desired = merge(
                    declared(
                        entity,
                        {} if value is None else {RATE: value},
                        document=f"team/{entity[0]}",
                        policy=policy,
                    )
                    for entity, value, policy in values
                )
            case Wait(seconds):
                cluster.clock.advance(seconds)
            case LateWrites():
                cluster.land_late_ones()
            case Run():
                with contextlib.suppress(CrashError, KquotaError):
                    asyncio.run(self._run(step))
                self.inventory.crash = NO_CRASH
                cluster.faults.before = lambda _: None
                cluster.faults.unknown.clear()

    async def _run(self, step: Run) -> None:
        cluster, ports = self.world.cluster, self.world.ports
        orders = replace(self.world.orders, rules=Rules(policy=step.policy, sync_confirmed=True))
        if step.fate is not None:
            cluster.faults.unknown.update(dict.fromkeys((ALICE, BOB), step.fate))
        prepared = await prepare(ports, orders, self.desired)
        self.described, self.described_at = prepared.observation.live, prepared.observation.at
        self._check(prepared.plan.changes)
        self._adopt(step.policy)
        self.inventory.crash = step.crash

        def die(request: str) -> None:
            at = {BEFORE_ALTER: "alter", AFTER_ALTER: "answer"}.get(step.crash)
            if request == at:
                raise CrashError

        cluster.faults.before = die
        _ = await apply(ports, orders, prepared)

    def _adopt(self, policy: Policy) -> None:
        for entity, limits in self.desired.limits.items():
            if policy is not Policy.OBSERVE and limits[0] == self.described.value(entity, RATE):
                self.ours.setdefault((entity, RATE), set()).add(limits[0])

    def _check(self, changes) -> None:
        for change in changes:
            if change.after is None:
                pair = change.entity, change.key
                assert change.cause is Cause.PRUNE
                assert change.before in self.ours.get(pair, set()) | set(self.open.get(pair, {})), (
                    f"{change} removes the value of another writer"
                )


WITHDRAWN = Documents(())
BOB_4000 = Documents(((BOB, 4000.0, None),))


@settings(max_examples=count_examples(200))
@example(
    [
        Foreign(BOB, 3000.0),
        BOB_4000,
        Run(crash=AFTER_RECORD),
        WITHDRAWN,
        Run(),
        Wait(66.0),
        Run(),
        Foreign(BOB, 4000.0),
        Run(),
    ]
)
@example(
    [
        Documents(((BOB, 4000.0, DeletionPolicy.DELETE),)),
        Run(Policy.UPSERT, fate=LOST),
        WITHDRAWN,
        Wait(66.0),
        Run(Policy.UPSERT),
        Foreign(BOB, 4000.0),
        Run(Policy.UPSERT),
    ]
)
@example(
    [
        BOB_4000,
        Run(),
        Documents(((BOB, 3000.0, None),)),
        Run(fate=LOST),
        Foreign(BOB, 4000.5),
        WITHDRAWN,
        Wait(66.0),
        Run(),
        Foreign(BOB, 3000.0),
        Run(),
    ]
)
@given(st.lists(STEPS, min_size=3, max_size=14))
def test_only_owned_values_are_ever_removed(steps):
    history = History()
    for step in steps:
        history.do(step)


def test_after_a_crash_owned_values_are_removed():
    history = History()
    steps = (BOB_4000, Run(crash=AFTER_ALTER), WITHDRAWN, Wait(66.0), Run(), Run())
    for step in steps:
        history.do(step)
    assert history.world.cluster.truth.value(BOB, RATE) is None


def test_a_write_that_lands_after_its_intent_ended_is_kept():
    history = History()
    steps = (
        BOB_4000,
        Run(fate=LATE),
        WITHDRAWN,
        Wait(66.0),
        Run(),
        LateWrites(),
        Run(),
        Wait(66.0),
        Run(),
    )
    for step in steps:
        history.do(step)
    assert history.world.cluster.truth.value(BOB, RATE) == 4000.0
    assert history.world.owned().intents == {}
    assert history.world.owned().records == {}
