"""A stop during sending: the sent changes are known, the others are not sent, and the next run continues."""

import asyncio

import pytest
from msgspec.structs import replace

from reconciler.errors import Interrupted
from reconciler.quota.results.report import Outcome, PairVisibility
from reconciler.quota.state import QuotaState, Unknown
from reconciler.reconcile import prepare
from reconciler.reconcile.sender import PlanSender
from tests.reconcile.scenarios import ALICE, ALICE_SHOP, ANYONE, RATE, World, documents

LEVELS = documents({ALICE_SHOP: {RATE: 9.0}, ALICE: {RATE: 8.0}, ANYONE: {RATE: 7.0}})
"""Three levels, therefore three requests."""


def stop_at(world: World, request: str, count: int) -> Interrupted:
    """Press Ctrl-C at the nth request of a kind: asyncio cancels the running task."""

    async def story():
        task = asyncio.current_task()
        requests: list[str] = []

        def press(name: str) -> None:
            requests.append(name)
            if name == request and requests.count(name) == count:
                task.cancel()

        world.cluster.faults.before = press
        await world.run(LEVELS)

    with pytest.raises(Interrupted) as caught:
        asyncio.run(story())
    assert caught.value.exit_code == 130
    world.cluster.faults.before = lambda _: None
    return caught.value


def stopped_at(world: World, request: str, count: int) -> Outcome:
    """Return the outcome of a run that is stopped at the nth request of a kind."""
    outcome = stop_at(world, request, count).outcome
    assert isinstance(outcome, Outcome)
    return outcome


@pytest.mark.parametrize("request_name", ["alter", "answer"])
def test_a_stop_waits_for_the_response_of_the_current_request(request_name):
    world = World()
    outcome = stopped_at(world, request_name, 2)
    assert [pair.status_text for pair in outcome.pairs] == ["APPLIED", "APPLIED", "NOT SENT"]
    assert [pair.visibility for pair in outcome.pairs] == [
        PairVisibility.VISIBLE,
        PairVisibility.VISIBLE,
        PairVisibility.UNCHECKED,
    ]
    assert outcome.interrupted
    assert len(world.cluster.sent) == 2


def test_applied_changes_are_owned_and_unsent_ones_leave_no_intent():
    world = World()
    stopped_at(world, "answer", 1)
    assert set(world.owned().records) == {ALICE_SHOP}
    assert world.owned().intents == {}
    outcomes = [line.outcome for line in world.audit.entries]
    intended = outcomes.count("INTENDED")
    assert outcomes[intended:] == ["APPLIED"] + ["NOT SENT"] * (intended - 1)


def test_the_next_run_continues_after_a_stop():
    world = World()
    stopped_at(world, "alter", 2)
    outcome = world.apply(LEVELS)
    assert outcome.complete
    assert [pair.change.entity for pair in outcome.pairs] == [ANYONE]


def test_a_stop_while_waiting_for_visibility_sends_no_removal():
    world = World()
    world.apply(documents({ALICE_SHOP: {RATE: 9.0}}))
    world.cluster.faults.lag[2] = 20.0
    new = documents({ALICE: {RATE: 8.0}})

    async def story():
        task = asyncio.current_task()
        pressed: list[str] = []

        def press(name: str) -> None:
            if name == "wait_visible" and not pressed:
                pressed.append(name)
                task.cancel()

        world.cluster.faults.before = press
        await world.run(new)

    with pytest.raises(Interrupted) as caught:
        asyncio.run(story())
    words = {pair.change.entity: pair.status_text for pair in caught.value.outcome.pairs}
    assert words == {ALICE_SHOP: "NOT SENT", ALICE: "APPLIED"}
    assert str(caught.value) == "interrupted: 1 applied, 1 not sent"


def test_a_response_that_never_arrives_makes_the_request_unknown():
    async def story():
        world = World()
        prepared = await prepare(world.ports, world.orders, LEVELS)
        waiting = asyncio.Event()

        class Silent:
            """A store whose response never arrives, as a client reports it: unknown after sending."""

            async def alter(self, alterations, *, results, **_):
                results.update(
                    {alteration.entity: Unknown(reason="under way") for alteration in alterations}
                )
                waiting.set()
                await asyncio.Event().wait()

        sender = PlanSender(
            replace(world.ports, store=Silent()),
            prepared.plan.changes,
            live=QuotaState(),
            grace=0.001,
        )
        task = asyncio.ensure_future(sender.run())
        await waiting.wait()
        task.cancel()
        await task
        return sender

    sender = asyncio.run(story())
    assert sender.interrupted
    assert sender.results == {(ALICE_SHOP, RATE): Unknown(reason="under way")}
    assert sender.was_sent
