"""The quotas of a Kafka cluster in memory. Implements ``ports.QuotaStore``.

Alterations are appended to one log, as at a KRaft controller; each broker shows the log up to its lag, in seconds
of a fake clock. Faults are scripted by entity, and other writers append to the same log. Tests can read every
earlier state of the log.
"""

import math
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field

from reconciler.base.protocols import Progress
from reconciler.errors import ConnectError
from reconciler.quota.entity import Entity, is_legal
from reconciler.quota.keys import COLUMNS, RULES, Key
from reconciler.quota.state import (
    ALL,
    Alteration,
    Applied,
    Cluster,
    ClusterDescription,
    Filter,
    Node,
    QuotaState,
    Rejected,
    Result,
    Unknown,
    Visibility,
)
from tests.fakes.clock import FakeClock

LOST, LANDED, LATE = "lost", "landed", "late"
"""Outcome of an alteration whose response is lost: dropped, committed, or committed later."""


@dataclass
class Faults:
    """Injected faults."""

    # Entity -> (code, name, message).
    rejected: dict[Entity, tuple[int, str, str]] = field(default_factory=dict)
    unknown: dict[Entity, str] = field(default_factory=dict)  # entity -> `LOST`, `LANDED` or `LATE`
    # Broker id -> seconds until it shows a change; `math.inf` = never.
    lag: dict[int, float] = field(default_factory=dict)
    unreachable: dict[int, str] = field(default_factory=dict)  # broker id -> error of a connection
    # Called before each request with its name (`cluster`, `describe`, `alter`, `validate`, `wait_visible`), and with
    # `answer` before an alter returns; may write to the log, or raise.
    before: Callable[[str], None] = lambda _: None


class FakeCluster:
    """The cluster; see the module.

    Args:
        state: Quotas at the start.
        brokers: Number of brokers, with ids from 1.
        rights: Cluster operations that the client may use.
    """

    def __init__(
        self,
        state: QuotaState | None = None,
        *,
        clock: FakeClock | None = None,
        brokers: int = 3,
        cluster_id: str = "fake-cluster",
        rights: frozenset[str] | None = frozenset({"DescribeConfigs", "AlterConfigs"}),
        behaves_as: str = "4.x",
    ) -> None:
        self.clock = clock or FakeClock()
        self.faults = Faults()
        self.cluster_id = cluster_id
        self.rights = rights
        self.behaves_as = behaves_as
        self.scram_users: frozenset[str] = frozenset()
        self.requests: list[str] = []
        self.sent: list[tuple[Alteration, ...]] = []
        self.validated: list[tuple[Alteration, ...]] = []
        self._brokers = tuple(range(1, brokers + 1))
        self._start = state or QuotaState()
        self._log: list[tuple[float, Entity, tuple[tuple[Key, float | None], ...]]] = []
        self._late: list[Alteration] = []
        self._values = {(e, key): value for e, key, value in self._start.pairs()}
        self._states: dict[int, QuotaState] = {}

    # ---- ports.QuotaStore ----

    async def cluster(self) -> Cluster:
        await self._request("cluster")
        return Cluster(
            id=self.cluster_id,
            nodes=tuple(Node(id=i, host=f"b{i}", port=9092) for i in self._brokers),
            rights=self.rights,
            version_hint="4.1+",
            behaves_as=self.behaves_as,
        )

    async def observe(self, *, scram_users: bool = False) -> ClusterDescription:
        cluster = await self.cluster()
        quotas = await self.describe(ALL)
        users = self.scram_users if scram_users else frozenset()
        return ClusterDescription(cluster=cluster, quotas=quotas, scram_users=users)

    async def describe(self, expected_filter: Filter, *, node: int | None = None) -> QuotaState:
        await self._request("describe")
        broker = node if node is not None else next(iter(self._live()), None)
        if broker is None or broker in self.faults.unreachable:
            raise ConnectError("no broker answers", node=f"b{broker}")
        return _filtered(self.shown_by(broker), expected_filter)

    async def alter(
        self,
        alterations: Sequence[Alteration],
        *,
        validate_only: bool = False,
        progress: Progress | None = None,
        results: MutableMapping[Entity, Result] | None = None,
    ) -> Mapping[Entity, Result]:
        await self._request("validate" if validate_only else "alter")
        assert alterations, "an empty request has no effect"
        assert len({alteration.entity for alteration in alterations}) == len(alterations), (
            "an entity occurs twice"
        )
        if validate_only:
            self.validated.append(tuple(alterations))
        else:
            self.sent.append(tuple(alterations))
        answers = {} if results is None else results
        for alteration in alterations:
            answers[alteration.entity] = Unknown(reason="the request is under way")
        for alteration in alterations:
            answers[alteration.entity] = self._one(alteration, validate_only=validate_only)
        if progress is not None:
            progress("validate" if validate_only else "apply", len(alterations), len(alterations))
        if not validate_only:
            await self._request("answer")
        return answers

    async def wait_visible(self, expected: Sequence[Alteration], *, timeout: float) -> Visibility:  # noqa: ASYNC109
        await self._request("wait_visible")
        deadline = self.clock.monotonic() + timeout
        while True:
            lagging = tuple(
                i
                for i in self._live()
                if not all(_shows(self.shown_by(i), alteration) for alteration in expected)
            )
            if not lagging or self.clock.monotonic() >= deadline:
                return Visibility(
                    visible=tuple(i for i in self._live() if i not in lagging),
                    lagging=lagging,
                    unreachable=dict(self.faults.unreachable),
                )
            await self.clock.sleep(0.1)

    # ---- for tests ----

    def write(self, subject: Entity, key: Key, value: float | None) -> None:
        """Change a value as another writer."""
        self._values[subject, key] = value
        self._log.append((self.clock.monotonic(), subject, ((key, value),)))

    def land_late_ones(self) -> None:
        """Commit the ``LATE`` alterations now."""
        for alteration in self._late:
            self._commit(alteration)
        self._late.clear()

    @property
    def truth(self) -> QuotaState:
        """The state at the end of the log."""
        return self.at(len(self._log))

    def at(self, position: int) -> QuotaState:
        """Return the state after the first ``position`` entries of the log."""
        if position not in self._states:
            self._states[position] = self._start.with_values(
                (subject, key, value)
                for _, subject, operations in self._log[:position]
                for key, value in operations
            )
        return self._states[position]

    def states(self) -> list[QuotaState]:
        """Return every state of the log, the initial one included."""
        return [self.at(position) for position in range(len(self._log) + 1)]

    def shown_by(self, broker: int) -> QuotaState:
        """Return the state that a broker shows now."""
        look_time = self.clock.monotonic() - self.faults.lag.get(broker, 0.0)
        return self.at(sum(1 for when, _, _ in self._log if when <= look_time))

    @property
    def writes(self) -> int:
        """Number of alter requests that were not validate-only."""
        return len(self.sent)

    # ---- private ----

    async def _request(self, name: str) -> None:
        self.requests.append(name)
        self.faults.before(name)
        await self.clock.sleep(0)

    def _live(self) -> tuple[int, ...]:
        return tuple(i for i in self._brokers if i not in self.faults.unreachable)

    def _one(self, alteration: Alteration, *, validate_only: bool) -> Result:
        refusal = self.faults.rejected.get(alteration.entity) or _broker_rule(alteration)
        if refusal:
            code, name, message = refusal
            return Rejected(code=code, name=name, message=message)
        if validate_only:
            return Applied()
        fate = self.faults.unknown.get(alteration.entity)
        if fate == LATE:
            self._late.append(alteration)
        elif fate != LOST:
            self._commit(alteration)
        return Applied() if fate is None else Unknown(reason="the connection was lost")

    def _commit(self, alteration: Alteration) -> None:
        changed = tuple(
            (Key(name), value)
            for name, value in alteration.operations
            if name in set(COLUMNS) and self._values.get((alteration.entity, Key(name))) != value
        )
        if changed:
            self._values.update({(alteration.entity, key): value for key, value in changed})
            self._log.append((self.clock.monotonic(), alteration.entity, changed))


def _broker_rule(alteration: Alteration) -> tuple[int, str, str] | None:
    if not is_legal(alteration.entity) or "" in alteration.entity:
        return 42, "INVALID_REQUEST", "Invalid client quota entity"
    for name, value in alteration.operations:
        if value is not None and RULES[Key(name)].on_ip != (alteration.entity[2] is not False):
            return 42, "INVALID_REQUEST", f"Invalid configuration key {name}"
        if value is not None and not (value > 0 and math.isfinite(value)):
            return 42, "INVALID_REQUEST", f"Quota {name} must be greater than 0"
    return None


def _shows(state: QuotaState, alteration: Alteration) -> bool:
    return all(
        state.value(alteration.entity, Key(name)) == value for name, value in alteration.operations
    )


def _filtered(state: QuotaState, expected_filter: Filter) -> QuotaState:
    return QuotaState(
        limits={e: limits for e, limits in state.limits.items() if expected_filter.matches(e)},
        foreign_values={
            e: v for e, v in state.foreign_values.items() if expected_filter.matches(e)
        },
        foreign_entities=state.foreign_entities if not expected_filter.components else (),
    )
