"""One soak: executes the plan on real servers, waits until everything is as declared, or reports the differences."""

import contextlib
import json
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from tests.kube.e2e.forwarder import Forwarder
from tests.kube.e2e.world import Operator, World, eventually
from tests.servers import raw_quotas
from tests.servers.kube.api import APPLY_PATCH, MERGE_PATCH, Answer
from tests.soak.invariants import Declared, Observation, Problem, problems
from tests.soak.plan import NAMESPACES, Step, faults, operations

GROUP: Final = "/apis/kafka-quotas.io/v1alpha1"
STANDSTILL_SECONDS: Final = 150.0
"""The time after which unchanged problems count as final: an open write takes 65 s, a retry up to 60."""

LONGEST_WAIT_SECONDS: Final = 600.0
FOREIGN: Final = {f"foreign{number}": float(5000 + number) for number in range(10)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The options of a soak.

    Attributes:
        seed: Determines every operation and every fault.
        seconds: Duration of operations and faults.
        documents: Maximum number of live documents.
        every: Mean seconds between two faults.
        rate: Operations per second.
        elect: Whether the operator uses a Lease, with which a start after a kill takes longer.
    """

    seed: int
    seconds: float
    documents: int
    every: float = 8.0
    rate: float = 6.0
    elect: bool = False

    @property
    def again(self) -> str:
        """The command that repeats the plan."""
        elect = " --elect" if self.elect else ""
        return (
            f"python -m tests.soak --seed {self.seed} --minutes {self.seconds / 60:g}"
            f" --documents {self.documents} --fault-every {self.every:g} --rate {self.rate:g}{elect}"
        )


@dataclass(slots=True)
class Soak:
    """A running soak.

    Attributes:
        world: The world, in which QuotaCluster, namespaces and operator are created here.
        settings: The options.
        counts: Number of executed operations and faults by kind.
    """

    world: World
    settings: Settings
    declared: Declared = field(default_factory=Declared)
    counts: Counter[str] = field(default_factory=Counter[str])
    _namespaces: list[str] = field(default_factory=list[str])
    _ends: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])
    _operator: Operator | None = None

    def run(self) -> str:
        """Run the soak; return one line about the executed steps.

        Raises:
            AssertionError: An invariant is violated; the message is the report.
        """
        kube = self.world.kube
        self._namespaces = [kube.fresh_namespace() for _ in range(NAMESPACES)]
        raw_quotas.set_quotas(
            self.world.kafka.port(),
            {
                raw_quotas.entity(user=user): {"producer_byte_rate": value}
                for user, value in FOREIGN.items()
            },
        )
        self.world.cluster(
            interval="5s",
            guards={"maxRemovals": 100_000, "maxRemovedPercent": 100, "maxChangeFactor": 1e9},
            properties={"default.api.timeout.ms": 8000, "request.timeout.ms": 5000},
        )
        with Forwarder(int(urlsplit(kube.api_url).port or 0)) as way:
            try:
                self._start(way)
                self._carry_out(way)
                return self._settle(way)
            finally:
                # The world deletes the documents; the empty namespaces stay.
                self._heal(way)

    # ---- the plan ----------------------------------------------------------------------------

    def _carry_out(self, way: Forwarder) -> None:
        reported_settings = self.settings
        steps = [
            *operations(
                reported_settings.seed,
                seconds=reported_settings.seconds,
                documents=reported_settings.documents,
                rate=reported_settings.rate,
            ),
            *faults(
                reported_settings.seed,
                seconds=reported_settings.seconds,
                every=reported_settings.every,
            ),
        ]
        begun = time.monotonic()
        for step in sorted(steps, key=lambda step: step.at):
            while (wait_seconds := begun + step.at - time.monotonic()) > 0:
                self._end_faults(way)
                time.sleep(min(wait_seconds, 0.05))
            self._end_faults(way)
            self.declared.note(f"{step.at:7.2f} s", step)
            self.counts[step.verb] += 1
            if step.is_fault:
                self._fail(step, way)
            else:
                self._operate(step)

    def _operate(self, step: Step) -> None:
        api, namespace = self.world.kube.api, self._namespaces[step.namespace]
        path = f"{GROUP}/namespaces/{namespace}/clientquotas/{step.document}"
        match step.verb:
            case "create":
                body = World.document(
                    step.document,
                    user=step.user,
                    limits=step.limits,
                    deletionPolicy=step.deletion_policy,
                )
                answer = api.call(
                    "PATCH", path, body, kind=APPLY_PATCH, query={"fieldManager": "soak"}
                )
            case "update":
                cleared = dict.fromkeys(
                    set(self.declared.documents[step.document].limits) - set(step.limits)
                )
                answer = self._merge(path, {"limits": {**step.limits, **cleared}})
            case "suspend":
                answer = self._merge(path, {"suspend": step.suspended})
            case _:
                self.declared.documents[step.document].last = api.get(path).body or {}
                answer = api.call("DELETE", path)
        _ = answer.need()
        self.declared.take(step, namespace)

    def _merge(self, path: str, spec: Mapping[str, object]) -> Answer:
        return self.world.kube.api.call("PATCH", path, {"spec": spec}, kind=MERGE_PATCH)

    # ---- faults ------------------------------------------------------------------------------

    def _fail(self, step: Step, way: Forwarder) -> None:
        kafka, operator = self.world.kafka, self._operator
        assert operator is not None
        match step.verb:
            case "kill operator":
                operator.kill()
                self._start(way, wait=False)
            case "terminate operator":
                _ = operator.stop()
                self._start(way, wait=False)
            case "pause broker" if kafka.running():
                kafka.pause(1)
            case "kill broker" if kafka.running():
                kafka.resume(1)
                kafka.kill(1)
            case "drop API connections":
                way.drop()
            case "refuse API connections":
                way.cut()
            case "delay API":
                way.delay(0.3)
            case _:
                pass
        if step.seconds:
            self._ends.append((time.monotonic() + step.seconds, step.verb))

    def _end_faults(self, way: Forwarder) -> None:
        operator = self._operator
        if operator is not None and not operator.child.running:
            self.counts["operator ended by itself"] += 1
            self.declared.note("", "the operator ended by itself and is started again")
            self._start(way, wait=False)
        due = [end for end in self._ends if end[0] <= time.monotonic()]
        for end in due:
            self._ends.remove(end)
            self.declared.note("", f"end of {end[1]}")
            self._end(end[1], way)

    def _end(self, fault: str, way: Forwarder) -> None:
        kafka = self.world.kafka
        match fault:
            case "pause broker" if kafka.running():
                kafka.resume(1)
            case "kill broker" if not kafka.running():
                kafka.start(1, wait=False)
            case "refuse API connections" | "delay API":
                way.heal()
            case _:
                pass

    def _heal(self, way: Forwarder) -> None:
        way.heal()
        kafka = self.world.kafka
        if kafka.running():
            kafka.resume(1)
        else:
            kafka.start(1, wait=False)
        kafka.wait_ready()

    def _start(self, way: Forwarder, *, wait: bool = True) -> None:
        place = self.world.place
        plain = self.world.kube.kubeconfig_for(place.namespace, place.account)
        arguments = [f"--kubeconfig={way.kubeconfig(plain)}", "--deletion-timeout=30m"]
        if not self.settings.elect:
            arguments.append("--no-leader-elect")
        self._operator = self.world.start(*arguments, ready=False)
        if wait:
            eventually(self._operator.ready, seconds=60, what="the operator to be ready")

    # ---- afterwards --------------------------------------------------------------------------

    def _settle(self, way: Forwarder) -> str:
        """Wait until no invariant is violated, as long as anything changes."""
        self._ends.clear()
        self._heal(way)
        healed = changed = time.monotonic()
        texts: frozenset[str] | None = None
        while True:
            self._end_faults(way)
            observation = self._look()
            violations = problems(self.declared, observation, FOREIGN)
            if not violations:
                break
            names = frozenset(str(violation) for violation in violations)
            if names != texts:
                texts, changed = names, time.monotonic()
            now = time.monotonic()
            if now - changed > STANDSTILL_SECONDS or now - healed > LONGEST_WAIT_SECONDS:
                raise AssertionError(self._report(violations, observation))
            time.sleep(2.0)
        done = sum(count for verb, count in self.counts.items() if verb in _OPERATIONS)
        failed = sum(self.counts.values()) - done
        assert observation.events <= 6 * done + 200 * failed, f"{observation.events} events"
        counts = ", ".join(f"{count} {verb}" for verb, count in sorted(self.counts.items()))
        reported_settings = self.settings
        return (
            f"seed {reported_settings.seed}: {reported_settings.seconds / 60:g} minutes, at most {reported_settings.documents} documents: {counts};"
            f" {len(self.declared.live)} live at the end, {observation.events} events,"
            f" as declared {time.monotonic() - healed:.0f} s after the last fault"
        )

    def _look(self) -> Observation:
        place, api = self.world.place, self.world.kube.api
        logs = [operator.log.read_text(encoding="utf-8") for operator in self.world.operators]
        return Observation(
            objects=[
                item
                for namespace in self._namespaces
                for item in api.get(f"{GROUP}/namespaces/{namespace}/clientquotas").need()["items"]
            ],
            config_maps=[
                item
                for item in api.get(f"/api/v1/namespaces/{place.namespace}/configmaps").need()[
                    "items"
                ]
                if "kafka-quotas.io/records" in item["metadata"].get("labels", {})
            ],
            live=raw_quotas.describe(self.world.kafka.port()),
            cluster_id=self.world.kafka.cluster_id,
            events=sum(
                len(
                    api.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events").need()["items"]
                )
                for namespace in self._namespaces
            ),
            logs="\n".join(logs),
        )

    def _report(self, violations: list[Problem], observation: Observation) -> str:
        lines = [f"{len(violations)} invariants do not hold; run again: {self.settings.again}"]
        for violation in violations:
            lines += [
                "",
                f"== {violation.what}",
                *self.declared.history_of(violation.user, violation.document),
            ]
            for obj in observation.objects:
                if obj["metadata"]["name"] == violation.document or (
                    violation.user and violation.user in json.dumps(obj["spec"])
                ):
                    lines.append(json.dumps({key: obj.get(key) for key in ("metadata", "status")}))
            lines += list(observation.records_of(violation.user))
            marks = [mark for mark in (violation.user, violation.document) if mark]
            logged = [
                line
                for line in observation.logs.splitlines()
                if any(mark in line for mark in marks)
            ]
            lines += [f"log: {line[:400]}" for line in logged[-20:]]
        return "\n".join(lines)


_OPERATIONS: Final = frozenset({"create", "update", "suspend", "delete"})


def write_log(folder: Path, soak: Soak) -> Path:
    """Write all operations and faults in the order of their execution."""
    path = folder / f"soak-{soak.settings.seed}.log"
    with contextlib.suppress(OSError):
        _ = path.write_text("\n".join(soak.declared.history) + "\n", encoding="utf-8")
    return path
