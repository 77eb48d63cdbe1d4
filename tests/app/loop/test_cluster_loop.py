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


def test_the_first_reconciliation_starts_immediately_and_is_a_resync() -> None:
    async def story(stage: Stage) -> None:
        await settle()
        assert stage.wakes == [LoopTrigger(resync=True)]
        assert stage.loop.last_started == stage.loop.last_ended == stage.start

    Stage().play(story)


def test_a_message_starts_a_reconciliation_after_the_linger_time() -> None:
    async def story(stage: Stage) -> None:
        await stage.clock.turn(10.0)
        stage.box.put("a")
        stage.box.put("b")
        await stage.clock.turn(0.2)
        assert stage.wakes[1:] == [LoopTrigger(keys=("a", "b"))]
        assert stage.began[1] == pytest.approx(10.1)

    Stage().play(story)


def test_without_a_message_a_resync_starts_after_the_interval() -> None:
    async def story(stage: Stage) -> None:
        await stage.clock.turn(250.0)
        assert stage.began == pytest.approx([0.0, 100.0, 200.0])
        assert all(wake == LoopTrigger(resync=True) for wake in stage.wakes)

    Stage().play(story)


def test_every_reconciliation_receives_the_time_of_the_next_resync() -> None:
    async def story(stage: Stage) -> None:
        await stage.clock.turn(10.0)
        stage.box.put("a")
        await stage.clock.turn(200.0)
        assert stage.began == pytest.approx([0.0, 10.1, 109.0, 218.0][: len(stage.began)])
        assert stage.resyncs_at[:3] == pytest.approx([109.0, 109.0, 218.0])

    Stage(pace=replace(STEADY, jitter=0.1), chance=0.95).play(story)


def test_a_message_does_not_delay_the_resync() -> None:
    async def story(stage: Stage) -> None:
        await stage.clock.turn(99.0)
        stage.box.put("a")
        await stage.clock.turn(2.0)
        assert [wake.resync for wake in stage.wakes] == [True, False, True]
        assert stage.began[2] == pytest.approx(
            100.1
        )  # a pause of one second after the previous reconciliation

    Stage().play(story)


def test_messages_during_a_reconciliation_cause_one_reconciliation_after_it() -> None:
    async def story(stage: Stage) -> None:
        await settle()
        for key in ("a", "b", "a"):
            stage.box.put(key)
        await stage.clock.turn(20.0)
        assert [wake.keys for wake in stage.wakes] == [(), ("a", "b")]
        assert stage.began == pytest.approx([0.0, 6.1])

    Stage(takes=5.0).play(story)


def test_more_messages_than_the_mailbox_holds_become_a_complete_reconciliation() -> None:
    async def story(stage: Stage) -> None:
        await settle()
        for number in range(10_001):
            stage.box.put(str(number))
        assert stage.box.depth == 10_000
        await stage.clock.turn(5.0)
        assert stage.wakes[1] == LoopTrigger(everything=True)

    Stage().play(story)


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


def test_a_failed_resync_is_retried_and_the_next_resync_keeps_its_time() -> None:
    async def story(stage: Stage) -> None:
        await stage.clock.turn(101.0)
        assert stage.wakes == [
            LoopTrigger(resync=True),
            LoopTrigger(retry=True),
            LoopTrigger(resync=True),
        ]

    Stage(ends=[LoopOutcome(retry=True)]).play(story)


def test_a_message_ends_the_delay_after_a_failure_and_the_failure_count_remains() -> None:
    async def story(stage: Stage) -> None:
        await stage.clock.turn(3.5)  # reconciliations at 0, 1 and 3; the next one would be at 7
        stage.box.put("new credentials")
        await stage.clock.turn(1.0)
        assert stage.began[3] == pytest.approx(4.1)  # after the pause of one second, with lingering
        assert stage.loop.failures == 4

    Stage(ends=[LoopOutcome(retry=True)] * 9).play(story)


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


def test_the_log_names_the_failure_and_the_time_of_the_next_try(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(stage: Stage) -> None:
        await settle()

    with caplog.at_level(logging.WARNING):
        Stage(ends=[ConnectError("no broker answers")]).play(story)
    assert [record.getMessage() for record in caplog.records] == [
        "prod: no broker answers; next try in 1.0 s"
    ]


def test_a_fault_of_the_program_ends_the_loop_with_its_exception() -> None:
    async def story(stage: Stage) -> None:
        await settle()
        assert stage.task.done()
        with pytest.raises(ZeroDivisionError):
            stage.task.result()

    Stage(ends=[ZeroDivisionError()]).play(story)


def test_stop_ends_a_waiting_loop() -> None:
    async def story(stage: Stage) -> None:
        await stage.clock.turn(5.0)
        stage.stop.set()
        await settle()
        assert stage.task.done()
        assert stage.task.exception() is None

    Stage().play(story)


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


def test_a_cancelled_loop_first_ends_its_reconciliation() -> None:
    async def story(stage: Stage) -> None:
        await settle()
        stage.task.cancel()
        await settle()
        assert stage.task.cancelled()
        assert stage.ended == [0.0]

    Stage(takes=50.0).play(story)


def test_a_supervisor_that_sets_stop_and_cancels_cancels_a_reconciliation_once() -> None:
    texts: list[str] = []

    class Polite(Stage):
        async def work(self, wake: LoopTrigger) -> LoopOutcome:
            try:
                await self.clock.sleep(50.0)
            except asyncio.CancelledError:
                await self.clock.sleep(2.0)  # the current request
                texts.append("ended")
            return LoopOutcome()

    async def story(stage: Stage) -> None:
        await stage.clock.turn(1.0)
        stage.stop.set()
        await settle()
        stage.task.cancel()
        await settle()
        assert not stage.task.done()
        await stage.clock.turn(2.0)
        assert texts == ["ended"]
        assert stage.task.cancelled()

    Polite().play(story)


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


def test_a_new_interval_applies_from_the_next_resync() -> None:
    async def story(stage: Stage) -> None:
        await settle()
        stage.pace = LoopIntervals(interval=10.0, jitter=0.0)
        await stage.clock.turn(115.0)
        assert stage.began == pytest.approx([0.0, 100.0, 110.0])

    Stage().play(story)


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


def test_an_observation_that_needs_confirmation_is_repeated_soon() -> None:
    async def story(stage: Stage) -> None:
        await stage.clock.turn(110.0)
        assert stage.began == pytest.approx([0.0, 3.0, 6.0, 100.0])
        assert [wake.resync for wake in stage.wakes] == [True, False, False, True]

    Stage(ends=[LoopOutcome(confirm=True), LoopOutcome(confirm=True)]).play(story)


def test_an_observation_that_can_be_confirmed_only_later_is_repeated_at_that_time() -> None:
    async def story(stage: Stage) -> None:
        await stage.clock.turn(110.0)
        assert stage.began == pytest.approx([0.0, 40.0, 100.0])

    Stage(ends=[LoopOutcome(confirm=True, confirm_after=40.0)]).play(story)


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


@given(PACES, st.integers(1, 100))
def test_without_jitter_delays_never_shrink_while_failures_increase(
    pace: LoopIntervals, failures: int
) -> None:
    def even() -> float:
        return 0.5

    assert pace.retry_after(failures, even) <= pace.retry_after(failures + 1, even)


def test_delays_double_up_to_the_maximum() -> None:
    pace = LoopIntervals(first_retry=1.0, last_retry=10.0)
    assert [pace.retry_after(n, lambda: 0.5) for n in range(1, 7)] == [1, 2, 4, 8, 10, 10]


def test_jitter_lengthens_and_shortens_the_interval() -> None:
    pace = LoopIntervals(interval=100.0, jitter=0.1)
    assert pace.resync_after(lambda: 0.0) == pytest.approx(90.0)
    assert pace.resync_after(lambda: 0.5) == pytest.approx(100.0)
    assert pace.resync_after(lambda: 0.999999) == pytest.approx(110.0, abs=0.001)


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
        ("batch", 0),
        ("first_retry", 0.0),
        ("last_retry", 0.5),
    ],
)
def test_intervals_that_are_not_positive_are_rejected(name: str, wrong: float) -> None:
    with pytest.raises(ConfigError, match=name) as caught:
        LoopIntervals(**{name: wrong})
    assert caught.value.key == name
