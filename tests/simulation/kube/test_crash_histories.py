"""Tests of a limit whose document is deleted at once, while the first leader is killed and the next one ends.

The history is replayed for each effect of the first leader after which it is killed, for each moment of the deletion and of
the end of the next leader, with answers of the API server and writes to Kafka that are late. At the end no limit is live
whose document with the deletionPolicy Delete is gone.
"""

import asyncio
import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from hypothesis import settings
from msgspec.structs import replace

from reconciler.quota.entity import entity
from tests.simulation.brokers import BROKER_RETRY_SECONDS
from tests.simulation.kube.api_server import ApiWrite
from tests.simulation.kube.operator_world import REPLICAS, OperatorWorld
from tests.simulation.kube.operators import Candidate
from tests.simulation.kube.resources import NAME_OF, TEAM
from tests.simulation.kube.scripted_world import (
    PRODUCED,
    STEP_SECONDS,
    ScriptedWorld,
    Story,
    declare,
    delete,
    ignored,
)
from tests.simulation.processes import SimulatedProcess

ALICE = entity(user="alice")
PLACE = "clientquotas", TEAM, NAME_OF[ALICE]
FAULT_SECONDS, REST_SECONDS = 200.0, 400.0
"""Times of the history, and in which everything is settled after it."""

MOST_EFFECTS = 60
"""More than the effects of the first leader until it is done."""

DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"
STRIDE = 1 if DEEP else 2_525 // settings().max_examples
"""`make unit` replays every 101st history, so that each value of each choice is among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """One history.

    Attributes:
        deleted: The moment after which the document is deleted.
        effects: The number of effects of the first leader from the declaration on, after which it is killed.
        ended: The moment after which the next leader ends; "" = it does not.
        wait: Seconds from that moment to its end.
        landing: Seconds after which brokers carry out the write of the first leader.
        late: Seconds by which answers of the API server to the first leader are late.
    """

    deleted: str
    effects: int
    ended: str
    wait: float
    landing: float
    late: float


def crashes(effects: int) -> Iterator[Crash]:
    """Yield all histories in which the first leader is killed after some effects."""
    for deleted, (ended, wait), landing, late in itertools.product(
        ("finalizer", "records", "alteration"),
        (("", 0.0), ("start", 5.0), ("release", 0.0), ("release", 6.0)),
        (0.0, BROKER_RETRY_SECONDS),
        (0.0, 5.4, 12.0),
    ):
        yield Crash(
            deleted=deleted, effects=effects, ended=ended, wait=wait, landing=landing, late=late
        )


class CrashWorld(ScriptedWorld):
    """One history of a limit that is created and deleted, with two leaders that end."""

    def __init__(self, crash: Crash) -> None:
        super().__init__(Story(steps=()), ignored)
        self.crash, self.replicas = crash, REPLICAS
        self.scenario = replace(self.scenario, days=FAULT_SECONDS / 86_400)
        self.settings = replace(self.settings, election_pace=1.0)
        self.first: SimulatedProcess | None = None
        self.second: SimulatedProcess | None = None

    async def script(self) -> None:
        """Declare a limit, and another one whose leader is killed."""
        declare("bob", {PRODUCED: 100_000.0})(self)
        await asyncio.sleep(STEP_SECONDS)
        (self.first,) = (
            self.processes[name] for name, each in self.candidates.items() if each.leads_on
        )
        self.first.steps_left = self.crash.effects
        self.api.late_seconds = self.crash.late
        self.brokers.answers.landing_seconds[self.first.name] = self.crash.landing
        declare("alice", {PRODUCED: 200_000.0})(self)

    programs: ClassVar = {"operators": OperatorWorld.operate, "script": script}

    def _on_kill(self, process: SimulatedProcess) -> None:
        super()._on_kill(process)
        if process is self.first:
            self.api.late_seconds = 0.0

    def _lease_written(self, write: ApiWrite) -> None:
        super()._lease_written(write)
        holder = "" if write.after is None else write.after["spec"]["holderIdentity"]
        if self.second is None and self.first is not None and holder:
            process = self.processes[write.writer]
            if process is not self.first:
                self.second = process
                self._reached("start")

    def _on_write(self, write: ApiWrite) -> None:
        super()._on_write(write)
        if self.first is None:
            return
        if write.place == PLACE and write.after is None:
            self._reached("release")
        elif write.place == PLACE and write.verb == "patch":
            self._reached("finalizer")
        elif write.place[0] == "configmaps":
            self._reached("records")

    def alters(self, process: SimulatedProcess, candidate: Candidate) -> None:
        super().alters(process, candidate)
        if self.first is not None:
            self._reached("alteration")
            if process is self.first and self.crash.landing:
                _ = self.loop.call_later(1.0, self.first.kill)

    def _reached(self, moment: str) -> None:
        if moment == self.crash.deleted:
            _ = self.loop.call_soon(self._delete)
        if moment == self.crash.ended and self.second is not None:
            _ = self.loop.call_later(self.crash.wait, self._end_second)

    def _delete(self) -> None:
        if PLACE in self.server.objects:
            delete("alice")(self)

    def _end_second(self) -> None:
        if self.second is not None and (stop := self.stops.get(self.second.name)) is not None:
            stop.set()

    async def _comes_to_rest(self) -> None:
        """Check the end, without the laws about rest: nothing else differs from other histories."""
        await asyncio.sleep(REST_SECONDS)
        if PLACE in self.server.objects:
            self._break("the deleted document is still there")
        if (live := self.laws.live((ALICE, PRODUCED))) is not None:
            self._break(f"the document with deletionPolicy Delete is gone and its limit is {live}")
        if (ALICE, PRODUCED) in self.laws.records.intents:
            self._break("a write is open")


def test_no_crash_leaves_a_limit_whose_document_is_deleted() -> None:
    histories = itertools.chain(*map(crashes, range(1, MOST_EFFECTS)))
    for crash in itertools.islice(histories, 0, None, STRIDE):
        violation = CrashWorld(crash).run(traces=False).violation
        assert not violation, (crash, violation)
