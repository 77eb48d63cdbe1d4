"""Removal budgets: the first N removals of each tenant are sent, the others wait, and tenants are independent."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.codecs.loop_memory import read_removals, removal_rows
from reconciler.codecs.reader import DocumentReader
from reconciler.quota.entity import DEFAULT, Entity, entity, level, sort_key
from reconciler.quota.keys import Key
from reconciler.quota.ownership import Owner, OwnershipRecords, Recorded
from reconciler.quota.planner.guards import MIN_SHARE_FROM, Guard, Guards
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.planner.removal_budgets import (
    MOST_MOMENTS,
    RemovalAllowance,
    RemovalCount,
    condense,
    counts_of,
)
from reconciler.quota.policy import Cause, DeletionPolicy
from tests.quota import strategies
from tests.quota.reference import may_match_same

NOW, WINDOW = 1_700_000_000.0, 3600.0
RATE = Key.PRODUCER_BYTE_RATE


def owner(tenant: str) -> Owner:
    return Owner(document=f"{tenant}/a", deletion_policy=DeletionPolicy.DELETE)


def removal(tenant: str, number: int, cause: Cause = Cause.PRUNE) -> QuotaChange:
    subject = entity(user=f"{tenant}-{number}")
    return QuotaChange(
        entity=subject, key=RATE, before=1.0, after=None, cause=cause, owner=owner(tenant)
    )


def owning(**pairs: int) -> OwnershipRecords:
    return OwnershipRecords(cluster_id="c").with_changes(
        [
            Recorded(
                entity=entity(user=f"{tenant}-{number}"), key=RATE, value=1.0, owner=owner(tenant)
            )
            for tenant, count in pairs.items()
            for number in range(count)
        ]
    )


class Cluster:
    """Tenants that request removals, and a loop that executes those within their budgets."""

    def __init__(self, guards: Guards, **pairs: int) -> None:
        self.guards, self.pair_counts = guards, dict(pairs)
        self.at, self.history = NOW, ()
        self.requests: dict[tuple[str, int], None] = {}
        self.since: dict = {}
        self.removals: list[tuple[float, str]] = []
        self.violations: dict[QuotaChange, object] = {}

    def ask(self, tenant: str, count: int) -> None:
        names = [(tenant, number) for number in range(self.pair_counts[tenant])]
        open_ = [name for name in reversed(names) if name not in self.requests]
        self.requests.update(dict.fromkeys(open_[:count]))

    def turn(self, after: float = 60.0, *, restart: bool = False) -> int:
        self.at += after
        if restart:
            self.since = {}
            rows = json.loads(json.dumps(removal_rows(self.history)))
            self.history = read_removals(DocumentReader(rows))
        owned = owning(**self.pair_counts)
        changes = [removal(*request) for request in sorted(self.requests)]
        history = tuple(count for count in self.history if count.at > self.at - WINDOW)
        allotment = RemovalAllowance(
            history=history, now=self.at, window=WINDOW, asked_since=self.since
        )
        self.violations = allotment.violations(changes, owned, self.guards)
        self.since = {
            change.pair: self.since.get(change.pair, self.at) for change in self.violations
        }
        going = [change for change in changes if change not in self.violations]
        self.history = condense((*history, *counts_of(going, owned, at=self.at)))
        for change in going:
            tenant, _, number = str(change.entity[0]).rpartition("-")
            del self.requests[tenant, int(number)]
            self.pair_counts[tenant] -= 1
            self.removals.append((self.at, tenant))
        # Names are consecutive again, so that owning() knows them.
        self.requests = {
            (tenant, self.pair_counts[tenant] - 1 - index): None
            for tenant in self.pair_counts
            for index in range(sum(request[0] == tenant for request in self.requests))
        }
        return len(going)


def within(removals: list[tuple[float, str]], end: float, tenant: str | None = None) -> int:
    return sum(end - WINDOW < at <= end and tenant in {None, who} for at, who in removals)


def test_the_first_removals_are_sent_and_the_message_counts_the_waiting_ones_with_a_time() -> None:
    cluster = Cluster(Guards(max_removals=3, max_removed_percent=100), a=30)
    cluster.ask("a", 4)
    assert cluster.turn(0.0) == 3
    (violation,) = cluster.violations.values()
    assert violation.guard is Guard.MAX_REMOVALS
    assert violation.retry_at == NOW + WINDOW
    assert violation.message == (
        "3 of 3 removals of namespace a are used within 1h; 1 wait; the next is made at 2023-11-14T23:13:20Z"
    )


def test_another_namespace_is_neither_delayed_nor_named() -> None:
    cluster = Cluster(Guards(max_removals=3, max_removed_percent=100), a=300, b=1)
    cluster.ask("a", 300)
    cluster.turn()
    cluster.ask("b", 1)
    assert cluster.turn() == 1
    assert cluster.pair_counts["b"] == 0
    assert all("namespace b" not in problem.message for problem in cluster.violations.values())


def test_three_hundred_deletions_are_all_executed_and_no_percentage_exceeds_a_hundred() -> None:
    cluster = Cluster(Guards(max_removals=194, max_removed_percent=100), a=300)
    cluster.ask("a", 300)
    assert cluster.turn() == 194
    assert next(problem.message for problem in cluster.violations.values()).startswith(
        "194 of 194 removals of namespace a"
    )
    assert cluster.turn() == 0
    assert cluster.turn(WINDOW) == 106
    assert cluster.pair_counts == {"a": 0}


def test_the_percentage_is_relative_to_the_owned_limits_at_the_start_of_the_window() -> None:
    cluster = Cluster(Guards(max_removals=1000, max_removed_percent=20), a=100)
    cluster.ask("a", 50)
    assert cluster.turn() == 20
    (message,) = {problem.message for problem in cluster.violations.values()}
    assert "20 of 20 removals" in message
    assert "(20 % of the 100 limits that it had when the window began)" in message
    assert cluster.turn() == 0
    assert cluster.turn(WINDOW) == 16


def test_the_percentage_includes_limits_removed_within_the_window() -> None:
    cluster = Cluster(Guards(max_removals=1000, max_removed_percent=20), a=100)
    cluster.ask("a", 5)
    assert cluster.turn() == 5
    cluster.ask("a", 30)
    assert cluster.turn() == 15  # 20 % of the 100 from before, not of the remaining 95


def test_all_tenants_together_have_a_bound_that_one_tenant_never_reaches() -> None:
    tenants = {f"t{number}": 4 for number in range(20)}
    cluster = Cluster(Guards(max_removals=4, max_removed_percent=20), **tenants)
    for tenant in tenants:
        cluster.ask(tenant, 4)
    assert cluster.turn() == 5 * 4
    (message, *more) = {problem.message for problem in cluster.violations.values()}
    assert not more
    assert message.startswith(
        "the removals of all namespaces together have reached their bound within 1h; 4 wait"
    )
    while cluster.requests:
        assert cluster.turn(WINDOW)


def test_a_guard_of_zero_withholds_without_a_time() -> None:
    cluster = Cluster(Guards(max_removals=0), a=1)
    cluster.ask("a", 1)
    assert cluster.turn() == 0
    (violation,) = cluster.violations.values()
    assert violation.retry_at is None
    assert "no removals while the guard is 0" in violation.message


def test_overrides_use_no_budget_and_counted_removals_are_sent_again_without_one() -> None:
    owned, guards = owning(a=3), Guards(max_removals=0)
    changes = [removal("a", 0, Cause.OVERRIDE), removal("a", 1)]
    paid = frozenset({(changes[1].entity, RATE)})
    assert RemovalAllowance(now=NOW, paid=paid).violations(changes, owned, guards) == {}
    assert counts_of(changes[:1], owned, at=NOW) == ()


GUARDS = st.builds(
    Guards,
    max_removals=st.integers(1, 6),
    max_removed_percent=st.sampled_from([0.5, 5.0, 20.0, 100.0]),
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.integers(0, 12),
        st.sampled_from([0.0, 1.0, 600.0, 1800.0, 3599.0, 3600.0]),
        st.booleans(),
    ),
    max_size=25,
)


@given(GUARDS, STEPS)
def test_no_window_ever_has_more_removals_of_a_tenant_than_its_budget(
    guards: Guards, steps: list[tuple[str, int, float, bool]]
) -> None:
    cluster = Cluster(guards, a=40, b=19, c=25)
    for tenant, count, after, restart in steps:
        cluster.ask(tenant, count)
        before = dict(cluster.pair_counts)
        cluster.turn(after, restart=restart)
        end = cluster.at
        for name in before:
            number = within(cluster.removals, end, name)
            assert number <= guards.max_removals
            # The number at the start of the window is the current number plus the removals in it; nothing is added.
            base = cluster.pair_counts[name] + number
            if base >= MIN_SHARE_FROM:
                assert number <= max(1, guards.max_removed_percent * base / 100)
        assert within(cluster.removals, end) <= max(
            5 * guards.max_removals,
            guards.max_removed_percent
            * (sum(cluster.pair_counts.values()) + within(cluster.removals, end))
            / 100,
        )


@given(GUARDS, STEPS)
def test_a_persistent_removal_is_finally_executed_at_the_announced_time(
    guards: Guards, steps: list[tuple[str, int, float, bool]]
) -> None:
    cluster = Cluster(guards, a=40, b=19, c=25)
    for tenant, count, after, restart in steps:
        cluster.ask(tenant, count)
        cluster.turn(after, restart=restart)
    cluster.turn(0.0)
    while cluster.requests:
        times = [violation.retry_at for violation in cluster.violations.values()]
        assert None not in times
        # The reported time is correct: then at least one is removed.
        assert cluster.turn(max(min(times) - cluster.at, 0.0)) >= 1


@given(GUARDS, STEPS)
def test_two_tenants_never_delay_a_third(
    guards: Guards, steps: list[tuple[str, int, float, bool]]
) -> None:
    together, alone = Cluster(guards, a=40, b=19, c=25), Cluster(guards, a=40, b=19, c=25)
    for tenant, count, after, restart in steps:
        together.ask(tenant, count)
        if tenant == "c":
            alone.ask(tenant, count)
        together.turn(after, restart=restart)
        alone.turn(after, restart=restart)
        assert together.pair_counts["c"] == alone.pair_counts["c"]


@given(st.sets(strategies.entities, max_size=12), st.integers(0, 12), st.permutations(range(12)))
def test_a_removal_gets_no_slot_while_a_wider_one_before_it_waits(
    entities: set[Entity], slots: int, order: list[int]
) -> None:
    sorted_entities = sorted(entities, key=sort_key)
    changes = [
        QuotaChange(
            entity=sorted_entities[index],
            key=RATE,
            before=1.0,
            after=None,
            cause=Cause.PRUNE,
            owner=owner("a"),
        )
        for index in order
        if index < len(sorted_entities)
    ]
    allowance = RemovalAllowance(now=NOW, window=WINDOW)
    waiting = allowance.violations(changes, owning(), Guards(max_removals=slots))
    assert len(waiting) == max(0, len(changes) - slots)
    for change in changes:
        if change not in waiting:
            assert not any(
                level(waiting_change.entity) > level(change.entity)
                and may_match_same(waiting_change.entity, change.entity)
                for waiting_change in waiting
            )


def test_the_longest_waiting_removal_precedes_wider_ones() -> None:
    changes = [
        QuotaChange(
            entity=subject, key=RATE, before=1.0, after=None, cause=Cause.PRUNE, owner=owner("a")
        )
        for subject in (entity(user=DEFAULT), entity(user="x", client_id="y"))
    ]
    allowance = RemovalAllowance(
        now=NOW, window=WINDOW, asked_since={(changes[1].entity, RATE): NOW - 60}
    )
    waiting = allowance.violations(changes, owning(), Guards(max_removals=1))
    assert list(waiting) == [changes[0]]


def test_the_stored_counts_are_bounded_and_none_expires_early() -> None:
    counts = [
        RemovalCount(at=NOW + number, tenant="a", count=1, owned=500, owned_by_all=900)
        for number in range(500)
    ]
    stored_counts = condense(counts)
    assert len(stored_counts) == MOST_MOMENTS
    assert sum(count.count for count in stored_counts) == 500
    for number in range(0, 500, 50):
        later = sum(count.count for count in stored_counts if count.at > NOW + number)
        assert later >= 500 - number - 1


@pytest.mark.parametrize(
    ("window", "text"), [(7200.0, "2h"), (300.0, "5m"), (90.0, "90s"), (5400.0, "90m")]
)
def test_the_message_contains_the_length_of_the_window(window: float, text: str) -> None:
    allotment = RemovalAllowance(now=NOW, window=window)
    refused = allotment.violations([removal("a", 0)], owning(a=1), Guards(max_removals=0))
    (violation,) = refused.values()
    assert f"are used within {text};" in violation.message


def test_a_reduced_budget_has_room_when_enough_removals_have_left_the_window() -> None:
    history = [
        RemovalCount(at=at, tenant="a", count=5, owned=20, owned_by_all=20)
        for at in (NOW - 30, NOW - 20, NOW - 10)
    ]
    allotment = RemovalAllowance(history=history, now=NOW, window=WINDOW)
    guards = Guards(max_removals=6, max_removed_percent=100)
    (violation,) = allotment.violations([removal("a", 0)], owning(a=5), guards).values()
    assert violation.retry_at == NOW - 20 + WINDOW
