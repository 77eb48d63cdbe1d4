"""A world whose operator is killed, disconnected or left without a response at any step, and its final invariants.

A step is one request, to the API server or to Kafka. The declarations of users are stored separately, so that the
invariants do not use the operator's memory.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from reconciler.app.loop.cluster_loop import LoopTrigger
from reconciler.errors import ConnectError, KquotaError, KubernetesUnavailable
from reconciler.kube.api.custom_resources import FINALIZER
from reconciler.kube.api.resource_paths import CLIENT_QUOTAS
from reconciler.kube.records.config_map_reader import read
from reconciler.quota.entity import Entity, entity
from reconciler.quota.keys import COLUMN_OF, Key
from reconciler.quota.ownership import SETTLING_SECONDS
from reconciler.quota.state import set_values
from tests.fakes.manual_clock import Inline
from tests.kube.run.test_cluster_reconciler import World
from tests.kube.worlds import FIELD, resource

KILL, REFUSE, CUT = "kill", "refuse", "cut"
"""The process is killed before the step; the step is refused; the step is executed and its response is lost."""

OPEN_GUARDS: Final = {"maxRemovals": 100_000, "maxRemovedPercent": 100, "maxChangeFactor": 1e9}
SETTLED_SECONDS: Final = SETTLING_SECONDS + 5.0
MOST_TURNS: Final = 12
"""Number of reconciliations after the last fault until everything is as declared."""


class Killed(BaseException):
    """The process has ended: no handler of an error runs."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault during one reconciliation.

    Attributes:
        step: Number of the step, from 0.
        kind: `KILL`, `REFUSE` or `CUT`.
    """

    step: int = 1_000_000
    kind: str = KILL


@dataclass(slots=True)
class Declared:
    """The declarations of users, and the live values that they permit.

    Attributes:
        limits: Limits of live documents, by name.
        subjects: The entity of each document.
        policies: The deletionPolicy of each document.
    """

    limits: dict[str, dict[Key, float]] = field(default_factory=dict)
    subjects: dict[str, Entity] = field(default_factory=dict)
    policies: dict[str, str] = field(default_factory=dict)


class FaultyWorld(World):
    """See the module.

    Args:
        foreign: Quotas of other writers; they stay unchanged.
        spec: Spec of the QuotaCluster.

    Attributes:
        declared: The declarations of users.
        steps: Number of requests of the last reconciliation.
        order: Their verbs and names.
        history: All actions.
    """

    def __init__(self, *, foreign: Mapping[Entity, float] | None = None, **spec: Any) -> None:
        self.declared = Declared()
        self.foreign = dict(foreign or {})
        self.steps = 0
        self.order: list[str] = []
        self.history: list[str] = []
        self._fault = Fault()
        self._dead = False
        super().__init__(patience=1e9, guards=OPEN_GUARDS, **spec)
        for subject, value in self.foreign.items():
            self.kafka.write(subject, Key.PRODUCER_BYTE_RATE, value)
        self.kafka.faults.before = self._broker_step
        self.api.before = self._api_step
        self.api.after = self._api_answer

    # ---- people ------------------------------------------------------------------------------

    def create(
        self, name: str, limits: dict[Key, float], *, user: str = "", policy: str = "Delete"
    ) -> None:
        """Create a document for a user; live documents of a test must name different users."""
        self.history.append(f"create {name} for {user or name}: {limits} {policy}")
        subject = entity(user=user or name)
        document = resource(name, subject, limits, deletionPolicy=policy)
        del document["metadata"]["uid"]
        self.put(document)
        self.declared.limits[name], self.declared.subjects[name] = dict(limits), subject
        self.declared.policies[name] = policy

    def update(self, name: str, limits: dict[Key, float]) -> None:
        """Change limits."""
        self.history.append(f"update {name}: {limits}")
        self.change(name, limits={FIELD[key]: value for key, value in limits.items()})
        obj = self.obj(name)
        obj["metadata"]["resourceVersion"] = self.api.next_version()
        self.declared.limits[name] = dict(limits)

    def remove(self, name: str) -> None:
        self.history.append(f"delete {name}")
        self.delete(name)
        if self.exists(name):
            self.obj(name)["metadata"]["resourceVersion"] = self.api.next_version()
        del self.declared.limits[name]

    # ---- the operator ------------------------------------------------------------------------

    def faulty_turn(self, fault: Fault = Fault()) -> None:
        """One reconciliation with a fault; a killed process is restarted."""
        self.history.append(f"pass with {fault}")
        self._fault, self._dead, self.steps = fault, False, 0
        self.order = []
        try:
            asyncio.run(self._pass())
        except Killed:
            self.begin()
        except BaseExceptionGroup as group:
            if group.split(Killed)[0] is None:
                raise
            self.begin()
        finally:
            self._fault, self._dead = Fault(), False

    async def _pass(self) -> None:
        asyncio.get_running_loop().set_default_executor(Inline())
        try:
            await self.everything()
            _ = await self.reconciled(LoopTrigger(resync=True))
        except KquotaError:
            pass  # The loop tries again.

    def pass_time(self, seconds: float) -> None:
        """Advance the time; late requests arrive within the time in which brokers retry."""
        self.history.append(f"{seconds:g} s go by")
        self.kafka.land_late_ones()
        self.kafka.clock.advance(seconds)

    def settle(self) -> None:
        """Run reconciliations without faults until one writes nothing.

        Raises:
            AssertionError: It does not converge, or an invariant is violated.
        """
        self.pass_time(SETTLED_SECONDS)
        for _ in range(MOST_TURNS):
            self.api.calls.clear()
            sent = len(self.kafka.sent)
            self.faulty_turn()
            if not self.writes() and len(self.kafka.sent) == sent:
                break
            self.pass_time(SETTLED_SECONDS)
        else:
            raise AssertionError(self.with_history("reconciliations continue to write"))
        problems = self.problems()
        assert not problems, self.with_history("; ".join(problems))

    # ---- invariants --------------------------------------------------------------------------

    def problems(self) -> list[str]:
        """All violated invariants."""
        return [*self._of_kafka(), *self._of_documents(), *self._of_records()]

    def _of_kafka(self) -> list[str]:
        declared_values: dict[tuple[Entity, Key], float] = {
            (subject, Key.PRODUCER_BYTE_RATE): value for subject, value in self.foreign.items()
        }
        for name, values in self.declared.limits.items():
            declared_values |= {
                (self.declared.subjects[name], key): value for key, value in values.items()
            }
        live = {
            (subject, key): value
            for subject, limits in self.kafka.truth.limits.items()
            for key, value in set_values(limits)
        }
        return [
            f"{subject} {key}: {declared_values.get((subject, key))} is declared, {live.get((subject, key))} is live"
            for subject, key in sorted(declared_values.keys() | live.keys(), key=str)
            if declared_values.get((subject, key)) != live.get((subject, key))
        ]

    def _of_documents(self) -> list[str]:
        problems: list[str] = []
        for (plural, _, name), obj in self.api.objects.items():
            if plural != CLIENT_QUOTAS.plural:
                continue
            if name not in self.declared.limits:
                problems.append(f"{name} was deleted and is still there")
                continue
            status = obj.get("status", {})
            if self.reason(name) != "Synced":
                problems.append(f"{name} is {self.reason(name)}")
            keys = {entry["key"]: entry for entry in status.get("keys", ())}
            for key, value in self.declared.limits[name].items():
                entry = keys.pop(key, {})
                values = entry.get("desired"), entry.get("applied"), entry.get("live")
                if values != (value, value, value) or "intended" in entry:
                    problems.append(f"{name} {key} is {value}, its status says {entry}")
            if keys:
                problems.append(f"{name} has {list(keys)} in its status, which it does not declare")
            needs = self.declared.policies[name] == "Delete"
            if needs != (FINALIZER in obj["metadata"].get("finalizers", ())):
                problems.append(f"the finalizer of {name} does not fit its deletionPolicy")
        return problems

    def _of_records(self) -> list[str]:
        maps = [obj for (plural, _, _), obj in self.api.objects.items() if plural == "configmaps"]
        owned = read(self.kafka.cluster_id, maps).owned
        declared = {
            (self.declared.subjects[name], key): (f"team/{name}", value)
            for name, values in self.declared.limits.items()
            for key, value in values.items()
        }
        recorded = {
            (subject, key): (owner.document, record.applied[COLUMN_OF[key]])
            for subject, record in owned.records.items()
            for key, owner in record.pairs()
        }
        problems = [f"an intent is left: {pair} {intent}" for pair, intent in owned.intents.items()]
        problems += [
            f"{pair}: {declared.get(pair)} is declared, {recorded.get(pair)} is recorded"
            for pair in sorted(declared.keys() | recorded.keys(), key=str)
            if declared.get(pair) != recorded.get(pair)
        ]
        problems += [f"orphaned: {pair}" for pair in owned.orphaned]
        return [*problems, *(f"drift is left: {pair}" for pair in owned.drift_since)]

    def with_history(self, problem: str) -> str:
        """The problem with all actions before it."""
        return "\n".join((problem, *self.history))

    # ---- steps -------------------------------------------------------------------------------

    def _due(self) -> bool:
        if self._dead:
            raise Killed
        due = self.steps == self._fault.step
        self.steps += 1
        if due and self._fault.kind == KILL:
            self._dead = True
            raise Killed
        return due

    def _broker_step(self, name: str) -> None:
        if name == "answer":
            if self._dead:
                raise Killed
            return
        self.order.append(name)
        if self._due():
            raise ConnectError(f"refused at {name}")

    def _api_step(self, *call: str) -> None:
        self._cut = False
        self.order.append(call[0])
        if self._due():
            if self._fault.kind == CUT:
                self._cut = True
                return
            raise KubernetesUnavailable(f"refused: {call}")

    def _api_answer(self, *call: str) -> None:
        if self._dead:
            raise Killed
        if self._cut:
            self._cut = False
            raise KubernetesUnavailable(f"the answer was lost: {call}")
