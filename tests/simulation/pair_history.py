"""A quota key of a simulation as a register: the audit log of its writes must explain the brokers' log."""

import math
from dataclasses import replace

from tests.histories.register import Read, RegisterHistory, Value, Write, WriteOutcome

LANDING_SECONDS = 400.0
"""Maximum time between an intent and the commit of its write: a long run plus a late execution of the request."""

QUIET_SECONDS = 60.0
"""Time without open writes after which a history is checked and restarted; longer than any lag of a broker."""

REFUSED = frozenset({"REJECTED", "HELD", "NOT SENT"})


class PairHistory:
    """Intents, outcomes and changes of a quota key since it was last without open writes.

    Args:
        value: The initial value.
    """

    def __init__(self, value: Value) -> None:
        self._initial = self._value = value
        self._changes: list[Read] = []
        self._writes: list[Write] = []
        self._seen: list[Read] = []

    def committed(self, at: float, writer: str, value: Value, *, is_announced: bool) -> None:
        """Add a record of the log; ``is_announced`` is false for writers without an audit log."""
        if not is_announced:
            self._writes.append(Write(value=value, began=at, ended=at, writer=writer))
        if value != self._value:
            self._changes.append(Read(value=value, ended=at, writer=writer))
            self._value = value

    def intended(self, at: float, process: str, value: Value) -> str:
        """Add an intent of the audit log; return the contradiction of the history before it, "" = none."""
        problem = self._begin_anew(at)
        self._writes.append(
            Write(
                value=value,
                began=at,
                ended=at + LANDING_SECONDS,
                outcome=WriteOutcome.UNKNOWN,
                writer=process,
                is_sent_again=True,
            )
        )
        return problem

    def decided(
        self, at: float, process: str, value: Value, outcome: str, *, is_settled: bool, lag: float
    ) -> None:
        """Add an outcome of the audit log; a settled one comes from a later describe, at most ``lag`` seconds old."""
        numbers = [
            number
            for number, write in enumerate(self._writes)
            if write.value == value and (is_settled or write.writer == process)
        ]
        if not numbers:
            return
        write = self._writes[numbers[-1]]
        if outcome == "APPLIED" and is_settled:
            self._seen.append(Read(value=value, ended=at, since=write.began - lag))
        elif outcome == "APPLIED":
            # An earlier attempt of the same write may be committed after the response to the last one.
            done = replace(write, ended=at, outcome=WriteOutcome.DONE, is_sent_again=False)
            self._writes.append(done)
        elif outcome in REFUSED:
            self._writes[numbers[-1]] = replace(write, outcome=WriteOutcome.REFUSED)

    def problem(self) -> str:
        """Return a change that the audit log does not explain; "" = none."""
        reads = {f"the observation {number}": [read] for number, read in enumerate(self._seen)}
        return RegisterHistory(
            self._writes,
            {"the brokers' log": self._changes, **reads},
            initial=self._initial,
            log="the brokers' log",
        ).contradiction()

    def _begin_anew(self, at: float) -> str:
        last = max((write.ended for write in self._writes), default=-math.inf)
        if not self._writes or at - last < QUIET_SECONDS:
            return ""
        problem, self._initial = self.problem(), self._value
        self._changes, self._writes, self._seen = [], [], []
        return problem
