import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.app.loop.cluster_loop import ClusterLoop, LoopIntervals, LoopOutcome, LoopTrigger
from reconciler.errors import AuthenticationError, ConfigError, ConnectError
from tests.fakes.manual_clock import TurnedClock, settle

STEADY = LoopIntervals(
    interval=100.0, jitter=0.0, gap=1.0, linger=0.1, first_retry=1.0, last_retry=8.0
)


@dataclass
class Stage:
    """A loop whose reconciliations end as the test sets, with their times."""

    pace: LoopIntervals = STEADY
    takes: float = 0.0
    ends: list[LoopOutcome | Exception] = field(default_factory=list)
    wakes: list[LoopTrigger] = field(default_factory=list)
    began: list[float] = field(default_factory=list)
    ended: list[float] = field(default_factory=list)
    resyncs_at: list[float] = field(default_factory=list)
    chance: float = 0.5

    def __post_init__(self) -> None:
        self.clock = TurnedClock()
        self.start = self.clock.now()

    async def work(self, wake: LoopTrigger) -> LoopOutcome:
        assert len(self.began) == len(self.ended), "two reconciliations at a time"
        assert wake.next_resync_at is not None
        self.resyncs_at.append(wake.next_resync_at - self.start)
        self.wakes.append(replace(wake, next_resync_at=None))
        self.began.append(self.clock.now() - self.start)
        try:
            await self.clock.sleep(self.takes)
        finally:
            self.ended.append(self.clock.now() - self.start)
        turn = self.ends.pop(0) if self.ends else LoopOutcome()
        if isinstance(turn, Exception):
            raise turn
        return turn

    def play(self, story: Callable[["Stage"], Awaitable[None]]) -> None:
        async def run() -> None:
            self.stop = asyncio.Event()
            self.loop = ClusterLoop(
                "prod",
                work=self.work,
                pace=lambda: self.pace,
                clock=self.clock,
                random=lambda: self.chance,
            )
            self.box = self.loop.mailbox
            self.task = asyncio.ensure_future(self.loop.run(self.stop))
            try:
                await story(self)
            finally:
                self.stop.set()
                await asyncio.wait({self.task})
                await settle()
                assert self.clock.sleepers == 0, "a task is still running"

        asyncio.run(run())


def test_the_delay_after_retriable_failures_grows_and_is_reset_by_a_success() -> None:
    lost, again = ConnectError("no broker answers"), LoopOutcome(retry=True)

    async def story(stage: Stage) -> None:
        await stage.clock.turn(90.0)
        assert stage.began == pytest.approx([0, 1, 3, 7, 15, 23])
        assert [wake.retry for wake in stage.wakes] == [False, True, True, True, True, True]
        assert stage.loop.failures == 0
        stage.ends = [lost]
        await stage.clock.turn(20.0)
        assert stage.began[6:] == pytest.approx([100, 101])

    Stage(ends=[lost, again, lost, lost, again]).play(story)


def test_a_terminal_failure_waits_for_a_message_or_the_resync(
    caplog: pytest.LogCaptureFixture,
) -> None:
    refused = AuthenticationError("the broker refused who we are")

    async def story(stage: Stage) -> None:
        await stage.clock.turn(99.0)
        assert stage.began == [0.0]
        assert stage.loop.failures == 0
        stage.box.put("a")
        await stage.clock.turn(0.5)
        assert len(stage.began) == 2

    with caplog.at_level(logging.WARNING):
        Stage(ends=[refused]).play(story)
    assert [record.getMessage() for record in caplog.records] == [
        "prod: the broker refused who we are"
    ]


def test_stop_during_a_reconciliation_cancels_it_and_waits_until_it_has_ended() -> None:
    texts: list[str] = []

    class Stubborn(Stage):
        async def work(self, wake: LoopTrigger) -> LoopOutcome:
            try:
                await self.clock.sleep(50.0)
            except asyncio.CancelledError:
                texts.append("asked to stop")
                await self.clock.sleep(2.0)  # the current request, and the writes after it
                texts.append("ended")
            return LoopOutcome()

    async def story(stage: Stage) -> None:
        await stage.clock.turn(1.0)
        stage.stop.set()
        await settle()
        assert texts == ["asked to stop"]
        assert not stage.task.done()
        await stage.clock.turn(2.0)
        assert texts == ["asked to stop", "ended"]
        assert stage.task.done()

    Stubborn().play(story)


@given(
    st.lists(st.tuples(st.floats(0.0, 3.0), st.booleans(), st.booleans()), max_size=25),
    st.floats(0.0, 2.0),
    st.floats(0.0, 1.5),
    st.floats(0.0, 0.99),
)
def test_the_minimum_gap_is_kept_between_two_reconciliations_and_no_message_is_lost(
    steps: list[tuple[float, bool, bool]], takes: float, gap: float, chance: float
) -> None:
    pace = LoopIntervals(interval=5.0, jitter=0.2, gap=gap, first_retry=0.5, last_retry=2.0)

    async def story(stage: Stage) -> None:
        put_times: dict[str, float] = {}
        for number, (wait, speaks, fails) in enumerate(steps):
            await stage.clock.turn(wait)
            if speaks:
                put_times[str(number)] = stage.clock.now() - stage.start
                stage.box.put(str(number))
            if fails:
                stage.ends.append(LoopOutcome(retry=True))
        await stage.clock.turn(60.0)
        for before, after in zip(stage.ended, stage.began[1:], strict=False):
            assert after - before >= gap - 0.002
        read_times = {
            key: began
            for wake, began in zip(stage.wakes, stage.began, strict=True)
            for key in wake.keys
        }
        assert read_times.keys() == put_times.keys()
        assert all(began >= put_times[key] for key, began in read_times.items())

    Stage(pace=pace, takes=takes, chance=chance).play(story)


CHANCE = st.floats(0, 1, exclude_max=True)
PACES = st.builds(
    LoopIntervals,
    interval=st.floats(0.1, 1e6),
    jitter=st.floats(0, 0.99),
    first_retry=st.floats(0.01, 10),
    last_retry=st.floats(10, 1e5),
)


@given(PACES, CHANCE)
def test_a_resync_starts_within_the_jitter_around_the_interval(
    pace: LoopIntervals, chance: float
) -> None:
    wait = pace.resync_after(lambda: chance)
    assert wait >= pace.interval * (1 - pace.jitter) * (1 - 1e-12)
    assert wait <= pace.interval * (1 + pace.jitter) * (1 + 1e-12)


@given(PACES, st.integers(1, 5000), CHANCE)
def test_the_delay_of_a_retry_stays_within_its_bounds_for_any_number_of_failures(
    pace: LoopIntervals, failures: int, chance: float
) -> None:
    wait = pace.retry_after(failures, lambda: chance)
    assert pace.first_retry * (1 - pace.jitter) * (1 - 1e-12) <= wait
    assert wait <= pace.last_retry * (1 + pace.jitter) * (1 + 1e-12)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("interval", 0.0),
        ("interval", math.nan),
        ("interval", math.inf),
        ("jitter", 1.0),
        ("jitter", -0.1),
        ("gap", -1.0),
        ("linger", math.nan),
        ("first_retry", 0.0),
        ("last_retry", 0.5),
    ],
)
def test_intervals_that_are_not_positive_are_rejected(name: str, wrong: float) -> None:
    with pytest.raises(ConfigError, match=name) as caught:
        LoopIntervals(**{name: wrong})
    assert caught.value.key == name


def test_a_second_cancellation_does_not_wait() -> None:
    class Hanging(Stage):
        async def work(self, wake: LoopTrigger) -> LoopOutcome:
            try:
                await self.clock.sleep(1e9)
            except asyncio.CancelledError:
                await self.clock.sleep(1e9)
            return LoopOutcome()

    async def story(stage: Stage) -> None:
        await settle()
        stage.task.cancel()
        await settle()
        assert not stage.task.done()
        stage.task.cancel()
        await settle()
        assert stage.task.cancelled()

    Hanging().play(story)


def test_an_exception_during_the_cancellation_of_a_reconciliation_is_raised() -> None:
    class Broken(Stage):
        async def work(self, wake: LoopTrigger) -> LoopOutcome:
            try:
                await self.clock.sleep(50.0)
            finally:
                raise ZeroDivisionError

    async def story(stage: Stage) -> None:
        await settle()
        stage.task.cancel()
        await settle()
        assert isinstance(stage.task.exception(), ZeroDivisionError)

    Broken().play(story)
