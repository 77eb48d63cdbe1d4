"""One register per entity and key: does one order of the writes, some with unknown outcome, explain all responses?

The search is that of Wing and Gong, as in Porcupine, with two changes. Brokers are followers: each shows an
earlier or later part of the same order, never goes back, and never shows a write before it was sent. A write without
a response may be executed at any later time or never; a writer that sends it again may execute it twice.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

Value = float | None

MOST_STEPS = 20_000


class WriteOutcome(StrEnum):
    """The writer's knowledge about a write."""

    DONE = "done"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """A write of one value."""

    value: Value  # none = a removal
    began: float  # time of sending
    # Time of the response; without a response, the last time at which it can be executed.
    ended: float = math.inf
    outcome: WriteOutcome = WriteOutcome.DONE  # result in the response
    writer: str = ""  # its sender; for messages, and for reads that name a writer
    # Whether the writer repeats it after a lost response, so that it may be executed twice.
    is_sent_again: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """An observed value."""

    value: Value  # none = no value
    ended: float  # time of the response
    # It shows at least every write that was answered before this time; never = no bound.
    since: float = -math.inf
    writer: str = ""  # the writer of the value; "" = unknown


@dataclass(frozen=True, slots=True)
class _Step:
    """A state of the search: executed writes, the current value, the number of explained reads."""

    carried_out: int
    value: Value
    writer: str
    latest_began: float
    explained: tuple[int, ...]


class RegisterHistory:
    """Writes and reads of one register.

    Args:
        writes: Writes of all writers.
        reads: Observer -> its reads, in order. Each observer follows the register separately.
        initial: The value before all writes.
        log: The observer that shows every change; "" = none.
        most_steps: Maximum number of steps: without an order the search would try all subsets of the lost writes.
    """

    def __init__(
        self,
        writes: Iterable[Write],
        reads: Mapping[str, Sequence[Read]],
        *,
        initial: Value = None,
        log: str = "",
        most_steps: int = MOST_STEPS,
    ) -> None:
        self._most_steps = most_steps
        self._writes = sorted(
            (write for write in writes if write.outcome is not WriteOutcome.REFUSED),
            key=lambda write: write.began,
        )
        self._observers = tuple(reads)
        self._reads = tuple(reads.values())
        self._initial = initial
        self._log = self._observers.index(log) if log else None
        self._done = self._mask(lambda write: write.outcome is WriteOutcome.DONE)
        self._before = tuple(self._answered_before(write.began) for write in self._writes)
        self._required = tuple(
            tuple(self._answered_before(read.since) for read in observer_reads)
            for observer_reads in self._reads
        )

    def contradiction(self) -> str:
        """The reads that no order of the writes explains; "" = there is such an order."""
        start = _Step(0, self._initial, "", -math.inf, (0,) * len(self._reads))
        steps, visited = [self._with_reads(start)], set[_Step]()
        furthest = steps[0]
        while steps:
            if len(visited) > self._most_steps:
                return f"undecided after {self._most_steps:,} steps"
            step = steps.pop()
            if step in visited:
                continue
            visited.add(step)
            if self._is_explained(step):
                return ""
            if _progress(step) > _progress(furthest):
                furthest = step
            steps += self._next_steps(step)
        return self._unexplained(furthest)

    def _mask(self, holds: Callable[[Write], bool]) -> int:
        return sum(1 << number for number, write in enumerate(self._writes) if holds(write))

    def _answered_before(self, moment: float) -> int:
        return self._done & self._mask(lambda write: write.ended < moment)

    def _with_reads(self, step: _Step) -> _Step:
        """All reads that the current value explains. The earliest explanation leaves most possibilities."""
        explained = list(step.explained)
        for observer, reads in enumerate(self._reads):
            while explained[observer] < len(reads):
                read = reads[explained[observer]]
                required = self._required[observer][explained[observer]]
                if (
                    read.value != step.value
                    or read.ended < step.latest_began
                    or required & ~step.carried_out
                    or (read.writer and read.writer != step.writer)
                ):
                    break
                explained[observer] += 1
        return _Step(step.carried_out, step.value, step.writer, step.latest_began, tuple(explained))

    def _next_steps(self, step: _Step) -> Iterator[_Step]:
        awaited = {
            (reads[place].value, reads[place].writer)
            for reads, place in zip(self._reads, step.explained, strict=True)
            if place < len(reads)
        }
        for number in range(len(self._writes) - 1, -1, -1):
            write, bit = self._writes[number], 1 << number
            is_new = not step.carried_out & bit
            if (
                self._before[number] & ~step.carried_out
                or write.ended < step.latest_began
                or not (is_new or write.is_sent_again)
            ):
                continue
            is_awaited = (write.value, write.writer) in awaited or (write.value, "") in awaited
            if not is_awaited and not (is_new and self._done & bit):
                continue
            after = self._with_reads(
                _Step(
                    step.carried_out | bit,
                    write.value,
                    write.writer,
                    max(step.latest_began, write.began),
                    step.explained,
                )
            )
            if self._is_in_time(step, after, write):
                yield after

    def _is_in_time(self, before: _Step, after: _Step, write: Write) -> bool:
        """Whether the log shows the change, and at a time when the write could be executed."""
        if self._log is None:
            return after != before
        changes, place = self._reads[self._log], before.explained[self._log]
        if after.explained[self._log] == place:
            is_in_time = place == 0 or changes[place - 1].ended <= write.ended
            return write.value == before.value and is_in_time and after != before
        return changes[place].ended <= write.ended

    def _is_explained(self, step: _Step) -> bool:
        return not self._done & ~step.carried_out and all(
            place == len(reads) for place, reads in zip(step.explained, self._reads, strict=True)
        )

    def _unexplained(self, step: _Step) -> str:
        for observer, place, reads in zip(
            self._observers, step.explained, self._reads, strict=True
        ):
            if place < len(reads):
                read = reads[place]
                return f"{observer} shows {read.value} at {read.ended:.3f}, after {step.value}: no order of the writes explains it"
        write = next(
            write
            for number, write in enumerate(self._writes)
            if self._done & ~step.carried_out & 1 << number
        )
        return f"the write of {write.value} by {write.writer or 'a writer'} at {write.began:.3f} is done, and no observer has a place for it"


def _progress(step: _Step) -> tuple[int, int]:
    return sum(step.explained), step.carried_out.bit_count()
