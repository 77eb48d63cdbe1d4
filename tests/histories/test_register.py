"""The history checker accepts histories that an order explains; for each rule, one history violates only that rule."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.histories.register import Read, RegisterHistory, Value, Write, WriteOutcome
from tests.hypothesis_profiles import count_examples

DONE, REFUSED, UNKNOWN = WriteOutcome.DONE, WriteOutcome.REFUSED, WriteOutcome.UNKNOWN


def write(
    value: Value, began: float, ended: float, outcome: WriteOutcome = DONE, writer: str = ""
) -> Write:
    return Write(value=value, began=began, ended=ended, outcome=outcome, writer=writer)


def contradiction(writes: Sequence[Write], **reads: Sequence[Read]) -> str:
    return RegisterHistory(writes, reads).contradiction()


def shows(*values: tuple[Value, float]) -> list[Read]:
    return [Read(value=value, ended=ended) for value, ended in values]


ONE_TWO = [write(1.0, 0, 1), write(2.0, 2, 3)]


def test_followers_show_the_same_order_at_different_times() -> None:
    assert not contradiction(
        ONE_TWO, a=shows((None, 0), (1.0, 1), (2.0, 3)), b=shows((None, 9), (2.0, 10))
    )


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (shows((2.0, 5), (1.0, 6)), "an older value comes back"),
        (shows((1.0, 5), (None, 6)), "a value goes although no one removed it"),
        (shows((3.0, 5)), "a value that no one wrote"),
        (shows((2.0, 1.5)), "a value before it was written"),
        ([Read(value=1.0, ended=6, since=5)], "a stale answer where a current one is promised"),
    ],
)
def test_an_observation_that_no_order_explains_is_a_contradiction(
    values: list[Read], reason: str
) -> None:
    assert "no order of the writes explains it" in contradiction(ONE_TWO, a=values), reason


def test_a_lost_write_may_become_visible_late_or_never() -> None:
    writes = [write(1.0, 0, math.inf, UNKNOWN), write(2.0, 2, 3)]
    assert not contradiction(writes, a=shows((2.0, 4)))
    assert not contradiction(writes, a=shows((2.0, 4), (1.0, 9)))
    bounded = [write(1.0, 0, 1.5, UNKNOWN), write(2.0, 2, 3)]
    assert contradiction(bounded, a=shows((2.0, 4), (1.0, 9)))


def test_a_lost_write_that_is_sent_again_may_be_executed_twice() -> None:
    lost = write(1.0, 0, math.inf, UNKNOWN)
    values = shows((1.0, 1), (2.0, 4), (1.0, 9))
    assert not contradiction([replace(lost, is_sent_again=True), ONE_TWO[1]], a=values)
    assert contradiction([lost, ONE_TWO[1]], a=values)
    assert contradiction([replace(write, is_sent_again=True) for write in ONE_TWO], a=values)


def test_a_rejected_write_is_never_visible() -> None:
    assert contradiction([write(1.0, 0, 1, REFUSED)], a=shows((1.0, 2)))


def test_brokers_show_writes_in_the_same_order() -> None:
    writes = [write(1.0, 0, 9), write(2.0, 0, 9)]
    assert not contradiction(writes, a=shows((1.0, 3), (2.0, 4)), b=shows((1.0, 5), (2.0, 6)))
    assert contradiction(writes, a=shows((1.0, 3), (2.0, 4)), b=shows((2.0, 5), (1.0, 6)))


def test_the_log_contains_every_change_with_its_writer() -> None:
    log = [Read(value=1.0, ended=0.5, writer="a"), Read(value=2.0, ended=2.5, writer="b")]
    writes = [write(1.0, 0, 1, writer="a"), write(2.0, 2, 3, writer="b")]
    assert not RegisterHistory(writes, {"log": log}, log="log").contradiction()
    assert RegisterHistory(writes[:1], {"log": log}, log="log").contradiction()
    assert RegisterHistory(writes, {"log": log[:1]}, log="log").contradiction()
    late = [log[0], Read(value=2.0, ended=3.5, writer="b")]
    assert RegisterHistory(writes, {"log": late}, log="log").contradiction()
    foreign = [log[0], Read(value=2.0, ended=2.5, writer="a")]
    assert RegisterHistory(writes, {"log": foreign}, log="log").contradiction()


def test_a_write_of_the_current_value_adds_nothing_to_the_log() -> None:
    log = [Read(value=1.0, ended=0.5), Read(value=2.0, ended=5.0)]
    again = [write(1.0, 0, 1), write(1.0, 2, 3), write(2.0, 4, 6)]
    assert not RegisterHistory(again, {"log": log}, log="log").contradiction()
    too_late = [write(1.0, 0, 1), write(1.0, 7, 8), write(2.0, 4, 6)]
    assert RegisterHistory(too_late, {"log": log}, log="log").contradiction()


def test_a_long_history_with_many_lost_writes_is_decided() -> None:
    writes = [
        write(float(number), number, number + 0.5 if number % 3 else math.inf, outcome)
        for number in range(300)
        for outcome in ((DONE if number % 3 else UNKNOWN),)
    ]
    reads = shows(*((float(number), number + 0.6) for number in range(300) if number % 3))
    assert not contradiction(writes, a=reads, b=reads[::5])
    wrong = [*reads[:150], Read(value=-1.0, ended=reads[150].ended)]
    assert "a shows -1.0" in contradiction(writes, a=wrong)


def test_a_search_beyond_its_bound_is_reported_as_undecided() -> None:
    lost = [
        write(float(number % 2), 0, math.inf, UNKNOWN, writer=str(number)) for number in range(40)
    ]
    values = shows(*((float(number % 2), number + 1) for number in range(60)))
    history = RegisterHistory(lost, {"a": values}, most_steps=500)
    assert history.contradiction() == "undecided after 500 steps"


# ---- against all orders ------------------------------------------------------------------------------

VALUES = st.sampled_from([None, 1.0, 2.0])
TIMES = st.integers(0, 5).map(float)


@st.composite
def small_writes(draw: st.DrawFn) -> Write:
    began, outcome = draw(TIMES), draw(st.sampled_from(WriteOutcome))
    ended = began + draw(TIMES) if draw(st.booleans()) or outcome is DONE else math.inf
    again = draw(st.booleans())
    return replace(write(draw(VALUES), began, ended, outcome), is_sent_again=again)


@st.composite
def small_reads(draw: st.DrawFn) -> list[Read]:
    times = sorted(draw(st.lists(TIMES, max_size=3)))
    return [
        Read(
            value=draw(VALUES),
            ended=ended,
            since=draw(st.sampled_from([-math.inf, ended, ended - 1])),
        )
        for ended in times
    ]


def is_explained_by_some_order(
    writes: Sequence[Write], reads: Mapping[str, Sequence[Read]]
) -> bool:
    """All orders of the writes, each at most twice, and all positions of all reads."""
    possible = [write for write in writes if write.outcome is not REFUSED]
    for length in range(2 * len(possible) + 1):
        for order in itertools.product(range(len(possible)), repeat=length):
            if is_possible(order, possible) and all(
                explains(order, possible, observer) for observer in reads.values()
            ):
                return True
    return False


def is_possible(order: tuple[int, ...], writes: Sequence[Write]) -> bool:
    moment = -math.inf
    for number in order:
        moment = max(moment, writes[number].began)
        if moment > writes[number].ended:
            return False
    if any(order.count(number) > 1 and not writes[number].is_sent_again for number in order):
        return False
    return all(
        number in order for number, write in enumerate(writes) if write.outcome is WriteOutcome.DONE
    )


def explains(order: Sequence[int], writes: Sequence[Write], reads: Sequence[Read]) -> bool:
    place = 0
    for read in reads:
        while True:
            prefix = [writes[number] for number in order[:place]]
            value = prefix[-1].value if prefix else None
            if (
                value == read.value
                and all(write.began <= read.ended for write in prefix)
                and all(
                    number in order[:place]
                    for number, write in enumerate(writes)
                    if write.outcome is DONE and write.ended < read.since
                )
            ):
                break
            place += 1
            if place > len(order):
                return False
    return True


@settings(max_examples=count_examples(60))
@given(st.lists(small_writes(), max_size=3), small_reads(), small_reads())
def test_the_search_agrees_with_a_check_of_all_orders(
    writes: list[Write], first: list[Read], second: list[Read]
) -> None:
    reads = {"a": first, "b": second}
    assert (not RegisterHistory(writes, reads).contradiction()) == is_explained_by_some_order(
        writes, reads
    )
