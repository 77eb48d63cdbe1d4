"""The removal guard of loops: a tenant that asks for too many removals gets none, and other tenants go on."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.ownership import Owner, OwnershipRecords, Recorded
from reconciler.quota.planner.guards import Guard, Guards, RemovalApproval
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.planner.removal_guard import (
    COUNTED_SECONDS,
    RemovalCount,
    counts_after,
    excess_removals,
)
from reconciler.quota.policy import Cause

NOW = 1_700_000_000.0
RATE = Key.PRODUCER_BYTE_RATE


def removal(tenant: str, number: int, cause: Cause = Cause.PRUNE) -> QuotaChange:
    return QuotaChange(
        entity=entity(user=f"{tenant}-{number}"),
        key=RATE,
        before=1.0,
        after=None,
        cause=cause,
        owner=Owner(document=f"{tenant}/a") if tenant else None,
    )


def owning(pairs: dict[str, int]) -> OwnershipRecords:
    return OwnershipRecords(cluster_id="c").with_changes(
        [
            Recorded(
                entity=entity(user=f"{tenant}-{number}"),
                key=RATE,
                value=1.0,
                owner=Owner(document=f"{tenant}/a"),
            )
            for tenant, count in pairs.items()
            for number in range(count)
        ]
    )


class Loop:
    """Tenants that ask for removals, and a loop that makes those that the guard does not withhold."""

    def __init__(self, guards: Guards, **owned: int) -> None:
        self.guards, self.owned, self.now = guards, Counter(owned), NOW
        self.counts: tuple[RemovalCount, ...] = ()
        self.requested = Counter[str]()

    def turn(self, *, after: float = 60.0, **more: int) -> Counter[str]:
        """Ask for more removals; return how many each tenant got."""
        self.now += after
        self.requested.update(more)
        changes = [removal(t, n) for t, count in self.requested.items() for n in range(count)]
        withheld = excess_removals(
            changes, self.counts, owning(self.owned), self.guards, now=self.now
        )
        self.messages = {
            change.namespace: violation.message for change, violation in withheld.items()
        }
        sent = [change for change in changes if change not in withheld]
        self.counts = counts_after(self.counts, sent, now=self.now)
        counts = Counter(change.namespace for change in sent)
        self.requested, self.owned = self.requested - counts, self.owned - counts
        return counts


def test_a_namespace_that_deletes_ten_documents_a_pass_for_an_hour_does_not_get_through():
    loop = Loop(Guards(max_removed_percent=100), a=700, b=50)
    assert loop.turn(a=10) == {"a": 10}
    for _ in range(60):
        assert loop.turn(a=10, b=0) == {}
    assert loop.turn(b=3) == {"b": 3}, "another namespace goes on"
    loop.turn(after=2 * COUNTED_SECONDS)
    assert loop.owned == {"a": 690, "b": 47}
    assert loop.messages["a"] == (
        "namespace a: 600 removals are more than the 10 that are allowed, 0 of them made in the last hour;"
        " none of them is made until guards.approvedRemovals has the namespace"
    )


def test_removals_of_the_last_hour_count_and_are_then_forgotten():
    loop = Loop(Guards(max_removals=2), a=9)
    assert [loop.turn(a=1)["a"] for _ in range(3)] == [1, 1, 0]
    assert "3 removals are more than the 2 that are allowed, 2 of them made" in loop.messages["a"]
    assert loop.turn(after=COUNTED_SECONDS - 121.0) == {}
    assert loop.turn(after=61.0) == {"a": 1}


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.integers(0, 4), st.floats(1.0, 4000.0)), max_size=25
    )
)
def test_no_hour_has_more_removals_than_are_allowed_and_none_waits_without_reason(events):
    loop = Loop(Guards(max_removals=3), a=19, b=19)
    removals: list[tuple[float, str, int]] = []
    for tenant, number, after in events:
        is_asking = loop.owned[tenant] - loop.requested[tenant] >= number
        for name, count in loop.turn(after=after, **{tenant: number * is_asking}).items():
            removals.append((loop.now, name, count))
            recent = [n for at, t, n in removals if t == name and at > loop.now - COUNTED_SECONDS]
            assert sum(recent) <= 3
    loop.turn(after=COUNTED_SECONDS)
    assert all(count > 3 for count in (+loop.requested).values())


@pytest.mark.parametrize(
    ("owned", "number", "is_lawful"), [(20, 2, True), (20, 3, False), (19, 3, True)]
)
def test_the_share_is_that_of_the_limits_that_the_tenant_had(owned, number, is_lawful):
    loop = Loop(Guards(max_removed_percent=10.0), a=owned, b=200)
    removed = sum(loop.turn(a=1)["a"] for _ in range(number))
    assert (removed == number) == is_lawful


def test_one_plan_removes_at_most_five_times_as_much_of_all_and_no_tenant_sees_the_others():
    tenants = dict.fromkeys("abcdef", 9)
    loop = Loop(Guards(max_removals=3, max_removed_percent=100), **tenants)
    assert loop.turn(**dict.fromkeys("abcdef", 3)) == {}
    assert set(loop.messages.values()) == {
        "too many limits of all namespaces together would be removed; none of them is made"
    }
    loop = Loop(Guards(max_removals=3, max_removed_percent=100), **tenants)
    assert loop.turn(**dict.fromkeys("abcde", 3), f=4) == dict.fromkeys("abcde", 3)
    loop = Loop(Guards(max_removals=3), **tenants)
    assert loop.turn(**dict.fromkeys("abcde", 3)) == {}, "more than the share of all limits"


def test_an_approval_lets_one_tenant_go_until_it_ends():
    approval = RemovalApproval(namespace="a", until=NOW + 100.0)
    loop = Loop(Guards(approved_removals=(approval,)), a=300, b=300)
    assert loop.turn(a=200, b=200) == {"a": 200}
    assert loop.turn(a=20) == {}


def test_overrides_and_removals_counted_before_do_not_count():
    changes = [removal("a", 0, Cause.OVERRIDE), removal("a", 1, Cause.ENDED)]
    arguments = owning({"a": 9}), Guards(max_removals=0)
    assert excess_removals(changes, (), *arguments, now=NOW) == {}
    again = removal("a", 2)
    assert excess_removals([again], (), *arguments, now=NOW, counted={again.pair}) == {}
    orphan = removal("", 0)
    violation = excess_removals([orphan], (), *arguments, now=NOW)[orphan]
    assert (violation.guard, violation.entity, violation.key) == (
        Guard.MAX_REMOVALS,
        orphan.entity,
        RATE,
    )
    assert violation.message.startswith("limits without a document: 1 removals are more than")
