"""Laws of a run, over random clusters, documents, policies and faults.

- Whatever goes wrong, a later run converges, owns what was applied, and the run after it writes nothing.
- In every state of the log each client's limit per key is its value from before or from after the run.
- A crash at any request, before or after any record is written, changes none of this.
"""

import asyncio
import contextlib
import math
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.errors import ConnectError, InventoryError, KquotaError
from reconciler.inventory.memory import MemoryInventory
from reconciler.quota.entity import DEFAULT, entity
from reconciler.quota.ownership import OwnershipRecords
from reconciler.quota.planner.guards import Guard
from reconciler.quota.planner.plan import apply_to
from reconciler.quota.policy import Policy
from reconciler.quota.precedence import Principal, resolve
from reconciler.quota.results.report import Outcome
from reconciler.quota.state import QuotaState
from reconciler.reconcile import NewOverride, apply, prepare, rollback_orders
from tests.fakes.cluster import LANDED, LATE, LOST
from tests.fakes.memory_audit_log import MemoryAuditLog
from tests.reconcile.scenarios import ALICE, ANYONE, OPEN, RATE, SHARE, World, documents

USERS, CLIENTS = ("alice", "bob"), ("shop", "pay")
SUBJECTS = [
    *(entity(user=u, client_id=c) for u in (*USERS, DEFAULT) for c in (*CLIENTS, DEFAULT)),
    *(entity(user=u) for u in (*USERS, DEFAULT)),
    *(entity(client_id=c) for c in (*CLIENTS, DEFAULT)),
]
PRINCIPALS = [
    Principal(user=u, client_id=c) for u in (*USERS, "zoe") for c in (*CLIENTS, "else", "")
]
VALUES = st.sampled_from([1.0, 2.0, 3.0, 4.0])
LIMITS = st.dictionaries(st.sampled_from([RATE, SHARE]), VALUES, min_size=1)
TABLES = st.dictionaries(st.sampled_from(SUBJECTS), LIMITS, max_size=6)
TRIPLES = st.tuples(TABLES, TABLES, TABLES)
FATES = st.dictionaries(
    st.sampled_from(SUBJECTS), st.sampled_from([LOST, LANDED, LATE]), max_size=3
)
REJECTED = st.sets(st.sampled_from(SUBJECTS), max_size=3)
LAGS = st.dictionaries(st.integers(1, 3), st.sampled_from([0.5, 7.0, math.inf]), max_size=2)


class CrashError(BaseException):
    """The process ends here; nothing may catch it."""


def is_lawful(before: QuotaState, after: QuotaState, now: QuotaState) -> bool:
    return all(
        observed.value in {old.value, new.value}
        for principal in PRINCIPALS
        for observed, old, new in zip(
            resolve(now, principal).effective,
            resolve(before, principal).effective,
            resolve(after, principal).effective,
            strict=True,
        )
    )


def heal(world: World) -> None:
    """End all faults, let late writes arrive, advance the time."""
    world.cluster.faults.rejected.clear()
    world.cluster.faults.unknown.clear()
    world.cluster.faults.lag.clear()
    world.cluster.faults.before = lambda _: None
    world.cluster.land_late_ones()
    world.cluster.clock.advance(66.0)


def converges(world: World, table: dict) -> None:
    """After its faults, a world is as declared after at most two runs, owns everything, and then nothing is written."""
    desired = documents(table)
    for _ in range(2):
        if world.apply(desired).complete and not world.plan(desired).plan.changes:
            break
    declared = {(e, k): v for e, limits in table.items() for k, v in limits.items()}
    live = {(e, k): v for e, k, v in world.cluster.truth.pairs()}
    owned = {
        (e, k): v
        for e, record in world.owned().records.items()
        for k, v in zip(type(RATE), record.applied, strict=True)
        if v is not None
    }
    assert {pair: live.get(pair) for pair in declared} == declared
    assert owned == declared
    assert world.owned().intents == {}
    sent, written = len(world.cluster.sent), len(world.inventory.written)
    assert world.apply(desired).pairs == ()
    assert (len(world.cluster.sent), len(world.inventory.written)) == (sent, written)


def started(live: dict, owned_table: dict) -> World:
    """A cluster where one table was applied by kquota and another one by other writers."""
    world = World(
        {e: v for e, v in live.items() if e not in owned_table},
        owned=OwnershipRecords(cluster_id="fake-cluster"),
    )
    world.apply(documents(owned_table))
    return world


@given(TRIPLES, FATES, REJECTED, LAGS)
def test_after_any_failure_a_later_run_converges(tables, fates, rejected, lags):
    live, old, new = tables
    world = started(live, old)
    world.cluster.faults.unknown.update(fates)
    world.cluster.faults.rejected.update(dict.fromkeys(rejected, (42, "INVALID_REQUEST", "no")))
    world.cluster.faults.lag.update(lags)
    world.apply(documents(new))
    heal(world)
    converges(world, new)


@given(TRIPLES, FATES, REJECTED, LAGS)
def test_every_state_of_the_log_gives_each_client_its_limit_from_before_or_after(
    tables, fates, rejected, lags
):
    live, old, new = tables
    world = started(live, old)
    position = len(world.cluster.states()) - 1
    world.cluster.faults.unknown.update({e: f for e, f in fates.items() if f != LATE})
    world.cluster.faults.rejected.update(dict.fromkeys(rejected, (42, "INVALID_REQUEST", "no")))
    world.cluster.faults.lag.update(lags)
    before = world.cluster.truth
    after = apply_to(before, world.plan(documents(new)).plan.changes)
    world.apply(documents(new))
    for now in world.cluster.states()[position:]:
        assert is_lawful(before, after, now)


@given(TRIPLES, LAGS)
def test_every_broker_shows_only_allowed_states_with_any_lag(tables, lags):
    live, old, new = tables
    world = started(live, old)
    world.cluster.clock.advance(100.0)
    world.cluster.faults.lag.update({node: lag for node, lag in lags.items() if lag < math.inf})
    before = world.cluster.truth
    after = apply_to(before, world.plan(documents(new)).plan.changes)
    states: list[QuotaState] = []
    world.cluster.faults.before = lambda _: states.extend(map(world.cluster.shown_by, (1, 2, 3)))
    world.apply(documents(new))
    assert all(is_lawful(before, after, now) for now in states)


class CrashingInventory(MemoryInventory):
    """Ends the process before or after the nth write."""

    def __init__(self, owned: OwnershipRecords, *, at: int, after: bool) -> None:
        super().__init__(owned)
        self._at, self._after = at, after

    async def write(self, cluster_id, changes):
        self._at -= 1
        if self._at == 0 and not self._after:
            raise CrashError
        await super().write(cluster_id, changes)
        if self._at == 0:
            raise CrashError


def crash_and_recover(world: World, new: dict, *, wait: float) -> None:
    async def story():
        await apply(
            world.ports, world.orders, await prepare(world.ports, world.orders, documents(new))
        )

    with contextlib.suppress(CrashError, KquotaError):
        asyncio.run(story())
    world.cluster.faults.before = lambda _: None
    world.cluster.clock.advance(wait)
    converges(world, new)


@given(TRIPLES, st.integers(1, 14), st.sampled_from([0.0, 66.0]))
def test_a_crash_at_any_request_is_repaired_by_the_next_run(tables, at, wait):
    live, old, new = tables
    world = started(live, old)
    requests: list[str] = []

    def die(request: str) -> None:
        requests.append(request)
        if len(requests) == at:
            raise CrashError

    world.cluster.faults.before = die
    crash_and_recover(world, new, wait=wait)


@given(TRIPLES, st.integers(1, 2), st.booleans(), st.sampled_from([0.0, 66.0]))
def test_a_crash_before_or_after_any_record_is_repaired_by_the_next_run(tables, at, after, wait):
    live, old, new = tables
    world = started(live, old)
    crashing = CrashingInventory(world.owned(), at=at, after=after)
    world.inventory = crashing
    world.ports = type(world.ports)(
        store=world.cluster, inventory=crashing, clock=world.cluster.clock, audit=world.audit
    )
    crash_and_recover(world, new, wait=wait)


@given(TABLES, TABLES, st.sampled_from(list(Policy)))
def test_a_second_run_writes_nothing_under_any_policy(live, new, policy):
    world = World(live, policy=policy)
    world.apply(documents(new))
    sent, written, lines = (
        len(world.cluster.sent),
        len(world.inventory.written),
        len(world.audit.entries),
    )
    assert world.apply(documents(new)).pairs == ()
    assert (len(world.cluster.sent), len(world.inventory.written), len(world.audit.entries)) == (
        sent,
        written,
        lines,
    )


def override_of(world: World, value: float | None) -> NewOverride:
    until = world.cluster.clock.now() + 3600.0
    return NewOverride(
        entity=ALICE, key=RATE, value=value, until=until, principal="me", reason="incident"
    )


MAYBE = st.none() | VALUES


@given(MAYBE, MAYBE, st.booleans(), MAYBE, MAYBE)
def test_an_override_that_the_cluster_rejects_changes_nothing(
    declared, foreign, has_earlier, earlier, value
):
    """Its value would otherwise be sent again by every later run, and fail, until the override ends."""
    world = World({} if foreign is None else {ALICE: {RATE: foreign}}, policy=Policy.UPSERT)
    desired = documents({} if declared is None else {ALICE: {RATE: declared}})
    world.apply(desired)
    if has_earlier:
        world.apply(desired, overrides=(override_of(world, earlier),))
    before, live = world.owned(), world.cluster.truth
    world.cluster.faults.rejected[ALICE] = (42, "INVALID_REQUEST", "no")
    outcome = world.apply(desired, overrides=(override_of(world, value),))
    assert world.cluster.truth == live
    if outcome.pairs:
        assert world.owned() == before
        assert world.plan(desired).plan.changes == ()


class FullAuditLog(MemoryAuditLog):
    """An audit log without space."""

    def append(self, entries: Sequence[Mapping[str, object]]) -> None:
        raise InventoryError("no space for the audit log")


@pytest.mark.parametrize("obstacle", ["outcome file", "audit log", "connection"])
@given(declared=MAYBE, foreign=MAYBE, earlier=st.lists(MAYBE, max_size=1), value=MAYBE)
def test_an_override_of_which_nothing_is_sent_does_not_begin(
    obstacle, declared, foreign, earlier, value
):
    """A later run would write a value of which the command said that it was not sent."""
    world = World({} if foreign is None else {ALICE: {RATE: foreign}}, policy=Policy.UPSERT)
    desired = documents({} if declared is None else {ALICE: {RATE: declared}})
    world.apply(desired)
    for earlier_value in earlier:
        world.apply(desired, overrides=(override_of(world, earlier_value),))
    before, live = world.owned(), world.cluster.truth
    options = world.options(overrides=(override_of(world, value),))
    ports = world.ports
    if obstacle == "audit log":
        ports = replace(ports, audit=FullAuditLog())

    def fail_before_sending(_: Outcome) -> None:
        if obstacle == "outcome file":
            raise InventoryError("no space for the outcome")

    def fail_request(name: str) -> None:
        if obstacle == "connection" and name == "alter":
            raise ConnectError("the broker does not answer")

    async def run() -> None:
        prepared = await prepare(ports, options, desired)
        world.cluster.faults.before = fail_request
        if prepared.plan.changes:
            with pytest.raises((InventoryError, ConnectError)):
                await apply(ports, options, prepared, before_sending=fail_before_sending)

    asyncio.run(run())
    assert (world.owned(), world.cluster.truth) == (before, live)


DOCUMENTED = st.sampled_from([10.0, 50.0, 99.0, 101.0, 5_000.0])


@given(
    st.sampled_from([ALICE, ANYONE]),
    DOCUMENTED,
    DOCUMENTED,
    MAYBE,
    st.sampled_from(["during", "renewed", "before"]),
)
@example(subject=ALICE, old=10.0, new=5_000.0, value=1.0, changed="before")
def test_the_end_of_an_override_writes_no_new_value_that_guards_would_refuse_without_it(
    subject, old, new, value, changed
):
    """While an override is in effect, declared values are not planned. One that changed before may have been refused."""
    guards = replace(OPEN, max_change_factor=10.0, protect_defaults=True)

    def refusals(world: World) -> list[Guard]:
        return [v.guard for v in world.plan(documents({subject: {RATE: new}})).preview.violations]

    plain, overridden = (World(policy=Policy.UPSERT, guards=OPEN) for _ in range(2))
    for world in (plain, overridden):
        world.apply(documents({subject: {RATE: old}}))
    order = replace(override_of(overridden, value), entity=subject)
    first = new if changed == "before" else old
    overridden.apply(documents({subject: {RATE: first}}), overrides=(order,))
    if changed == "renewed":
        overridden.apply(documents({subject: {RATE: new}}), overrides=(order,))
    overridden.cluster.clock.advance(4000.0)
    for world in (plain, overridden):
        world.orders = world.options(guards=guards)
    assert refusals(overridden) == refusals(plain)


@given(DOCUMENTED, DOCUMENTED, DOCUMENTED)
def test_a_document_that_changes_after_a_rollback_is_compared_with_the_rolled_back_value(
    old, slip, fixed
):
    plain, rolled_back = (World(policy=Policy.UPSERT, guards=OPEN) for _ in range(2))
    for world in (plain, rolled_back):
        world.apply(documents({ALICE: {RATE: old}}))
    slipped = documents({ALICE: {RATE: slip}})
    outcome = rolled_back.apply(slipped)
    changes = [pair.change for pair in outcome.pairs]
    orders = rollback_orders(
        changes, now=rolled_back.cluster.clock.now(), principal="me", reason="slip"
    )
    rolled_back.apply(slipped, overrides=orders)
    for world in (plain, rolled_back):
        world.orders = world.options(guards=replace(OPEN, max_change_factor=10.0))
    if fixed != slip:
        desired = documents({ALICE: {RATE: fixed}})
        after_rollback, without = (world.plan(desired).preview for world in (rolled_back, plain))
        assert [v.guard for v in after_rollback.violations] == [v.guard for v in without.violations]
