"""Several receivers: each gets everything once, and failures are independent."""

import asyncio

from reconciler.errors import NotifyError
from reconciler.notify.delivery import HttpReceiver
from reconciler.notify.endpoint import endpoint
from reconciler.notify.message import DriftEvent
from reconciler.notify.notifier import Notifier
from reconciler.notify.shapes import SHAPES, MessageShape
from tests.fakes.clock import FakeClock
from tests.notify.receivers import ALICE, BOB, NOW, Answer, Receiver, drift


class Issue:
    """A receiver that is not a webhook, as another package may implement it."""

    name = "issue"

    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails
        self.events: list[DriftEvent] = []

    async def take(self, message) -> None:
        if self.fails:
            raise NotifyError("issue: no")
        self.events.append(message.event)


def test_drift_is_reported_once_and_then_its_recovery():
    issue = Issue()
    notifier = Notifier([issue])

    async def story():
        for at, pairs in enumerate([[], [ALICE], [ALICE], [ALICE, BOB], [ALICE, BOB], [], []]):
            await notifier.notify(drift(*pairs), now=NOW + at)

    asyncio.run(story())
    assert issue.events == [DriftEvent.BEGAN, DriftEvent.CHANGED, DriftEvent.ENDED]
    assert notifier.state.entries == {}


def test_a_failed_receiver_is_notified_at_the_next_observation_and_the_others_not_again():
    good, bad = Issue(), Issue(fails=True)
    bad.name = "bad"
    notifier = Notifier([good, bad])
    first = asyncio.run(notifier.notify(drift(ALICE), now=NOW))
    assert [str(failure) for failure in first.failures] == ["issue: no"]
    assert [name for name, _ in first.delivered] == ["issue"]
    bad.fails = False
    second = asyncio.run(notifier.notify(drift(ALICE), now=NOW + 60))
    assert [name for name, _ in second.delivered] == ["bad"]
    assert (good.events, bad.events) == ([DriftEvent.BEGAN], [DriftEvent.BEGAN])


def test_a_receiver_without_the_first_message_gets_no_message_about_the_end():
    bad = Issue(fails=True)
    notifier = Notifier([bad])
    asyncio.run(notifier.notify(drift(ALICE), now=NOW))
    bad.fails = False
    assert asyncio.run(notifier.notify(drift(), now=NOW + 1)).delivered == ()


def test_every_format_reaches_a_real_receiver():
    async def story():
        clock = FakeClock(NOW)
        async with Receiver() as receiver:
            posts = [
                HttpReceiver(
                    shape,
                    endpoint(shape.value, receiver.url),
                    clock=clock,
                    random=lambda: 0.0,
                )
                for shape in MessageShape
            ]
            delivery = await Notifier(posts).notify(drift(ALICE), now=NOW)
            return delivery, receiver.got

    delivery, got = asyncio.run(story())
    assert {name for name, _ in delivery.delivered} == set(MessageShape)
    assert len(got) == len(SHAPES)


def test_receivers_are_notified_concurrently():
    async def story():
        arrived = asyncio.Barrier(2)

        class Waits(Issue):
            async def take(self, message) -> None:
                async with asyncio.timeout(60):
                    await arrived.wait()

        first, second = Waits(), Waits()
        second.name = "other"
        return await Notifier([first, second]).notify(drift(ALICE), now=NOW)

    assert len(asyncio.run(story()).delivered) == 2


def test_an_outage_is_reported_after_its_end():
    async def story():
        async with Receiver(*[Answer(status=500)] * 5, Answer()) as receiver:
            post = HttpReceiver(
                MessageShape.SLACK,
                endpoint("s", receiver.url),
                clock=FakeClock(NOW),
                random=lambda: 0.0,
            )
            notifier = Notifier([post])
            first = await notifier.notify(drift(ALICE), now=NOW)
            second = await notifier.notify(drift(ALICE), now=NOW + 60)
            return first, second

    first, second = asyncio.run(story())
    assert first.failures[0].attempts == 5
    assert second.delivered[0][1].event is DriftEvent.BEGAN
