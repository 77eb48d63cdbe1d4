"""The history checker agrees with a search of all orders; its log, its bounds."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

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
