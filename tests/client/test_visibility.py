"""Tests of visibility without a broker: every operation of every alteration must be shown by every broker."""

import asyncio

import pytest

from reconciler.base.backoff import Deadline
from reconciler.client.visibility import FEW, VisibilityWait, shows
from reconciler.errors import RequestTimeout
from reconciler.quota.entity import Entity, entity
from reconciler.quota.state import Alteration, Filter, Node, QuotaState, Visibility
from tests.fakes.clock import FakeClock

NODES = [Node(id=number, host=f"b{number}", port=9092) for number in (1, 2)]
EXPECTED = [
    Alteration(entity(user=f"u{number}"), (("producer_byte_rate", 5.0),))
    for number in range(FEW + 2)
]


def wait(expected: list[Alteration], missing: dict[int, Entity]) -> Visibility:
    """Wait for brokers that show everything except one entity each, for some seconds."""
    clock = FakeClock()

    async def describe(quota_filter: Filter, node: int, _: Deadline) -> QuotaState:
        return QuotaState(
            limits={
                alteration.entity: (5.0, None, None, None, None)
                for alteration in expected
                if quota_filter.matches(alteration.entity)
                and alteration.entity != missing.get(node)
            }
        )

    async def live(_: Deadline) -> list[Node]:
        return NODES

    watch = VisibilityWait(
        expected=expected,
        describe=describe,
        live=live,
        deadline=Deadline(at=clock.monotonic() + 2.0),
        clock=clock,
    )
    return asyncio.run(watch.run())


@pytest.mark.parametrize("count", [1, 2, FEW, FEW + 1])
def test_an_alteration_is_visible_only_if_every_broker_shows_it(count):
    expected = EXPECTED[:count]
    assert wait(expected, {}).everywhere
    for alteration in expected:
        visibility = wait(expected, {2: alteration.entity})
        assert (visibility.visible, visibility.lagging) == ((1,), (2,))


@pytest.mark.parametrize(("answers", "is_lagging"), [(1, True), (0, False)])
def test_a_broker_that_answered_is_lagging_although_the_deadline_ends_the_last_request(
    answers, is_lagging
):
    clock = FakeClock()
    deadline = Deadline(at=clock.monotonic() + 2.0)
    calls = 0

    async def describe(_filter: Filter, _node: int, _deadline: Deadline) -> QuotaState:
        nonlocal calls
        calls += 1
        if calls <= answers:
            return QuotaState()
        clock.advance(2.0)
        raise RequestTimeout("no answer in time", phase="request")

    async def live(_: Deadline) -> list[Node]:
        return NODES[:1]

    watch = VisibilityWait(
        expected=EXPECTED[:1], describe=describe, live=live, deadline=deadline, clock=clock
    )
    visibility = asyncio.run(watch.run())
    assert visibility.lagging == ((1,) if is_lagging else ())
    assert visibility.unreachable == ({} if is_lagging else {1: "no answer in time"})


def test_every_operation_of_an_alteration_counts():
    both = Alteration(entity(user="a"), (("producer_byte_rate", 5.0), ("consumer_byte_rate", None)))
    subject = both.entity
    assert shows(QuotaState(limits={subject: (5.0, None, None, None, None)}), both)
    assert not shows(QuotaState(limits={subject: (5.0, 1.0, None, None, None)}), both)
    assert not shows(QuotaState(limits={subject: (4.0, None, None, None, None)}), both)
    assert not shows(QuotaState(), both)
