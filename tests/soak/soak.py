"""One soak: random operations and faults on real servers; then everything becomes as declared, or the report says what not.

Equal seeds give equal operations and faults in equal order.
"""

import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from reconciler.kube.api.custom_resources import FINALIZER
from reconciler.kube.records.config_maps import read
from reconciler.quota.keys import FIELDS
from tests.kube.e2e.forwarder import Forwarder
from tests.kube.e2e.world import Operator, World, eventually
from tests.servers import raw_quotas
from tests.servers.kube.api import APPLY_PATCH, MERGE_PATCH

GROUP: Final = "/apis/kafka-quotas.io/v1alpha1"
STANDSTILL_SECONDS: Final = 150.0
"""The time after which unchanged problems count as final: an open write takes 65 s, a retry up to 60."""

KEYS: Final = ("producerByteRate", "consumerByteRate", "requestPercentage")
VALUES: Final = (2048, 4096, 8192, 16384, 65536)
NAMESPACES: Final = 3
FOREIGN: Final = {
    f"foreign{number}": {"producer_byte_rate": 5000.0 + number} for number in range(10)
}
"""Limits that another writer set and no document declares."""

FAULTS: Final = {
    "kill operator": (5, 0.0),
    "terminate operator": (2, 0.0),
    "pause broker": (4, 12.0),
    "kill broker": (1, 6.0),
    "drop API connections": (5, 0.0),
    "refuse API connections": (3, 8.0),
    "delay API": (3, 8.0),
}
"""Weight and most seconds of each fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The options of a soak.

    Attributes:
        seed: Determines every operation and every fault.
        seconds: Duration of operations and faults.
        documents: Maximum number of live documents.
        every: Mean seconds between two faults.
        rate: Operations per second.
    """

    seed: int
    seconds: float
    documents: int
    every: float = 8.0
    rate: float = 6.0

    @property
    def again(self) -> str:
        """The command that repeats the plan."""
        minutes = f"{self.seconds / 60:g}"
        return f"python -m tests.soak --seed {self.seed} --minutes {minutes} --documents {self.documents}"


@dataclass(slots=True)
class Document:
    """A document as users created it; names are not reused, users are.

    Attributes:
        name: Its name.
        namespace: Its namespace.
        user: User whose quota it declares.
        limits: Current or last declared limits.
        deletion_policy: `Delete` or `Retain`.
        tried: Pairs of key and value that it ever declared.
        last: The object before its deletion.
    """

    name: str
    namespace: str
    user: str
    limits: dict[str, int]
    deletion_policy: str
    tried: set[tuple[str, float]] = field(default_factory=set[tuple[str, float]])
    last: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def declared(self) -> dict[str, float]:
        """Its limits as Kafka names them."""
        return {FIELDS[key].value: float(value) for key, value in self.limits.items()}


@dataclass(slots=True)
class Soak:
    """A running soak, in a world in which QuotaCluster, namespaces and operator are created here."""

    world: World
    settings: Settings
    counts: Counter[str] = field(default_factory=Counter[str])
    history: list[str] = field(default_factory=list[str])
    _live: dict[str, Document] = field(default_factory=dict[str, Document])
    _deleted: list[Document] = field(default_factory=list[Document])
    _namespaces: list[str] = field(default_factory=list[str])
    _ends: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])
    _operator: Operator | None = None

    def run(self) -> str:
        """Run the soak; return one line about the executed steps.

        Raises:
            AssertionError: Something is not as declared; the message is the report.
        """
        kube = self.world.kube
        self._namespaces = [kube.fresh_namespace() for _ in range(NAMESPACES)]
        raw_quotas.set_quotas(
            self.world.kafka.port(),
            {raw_quotas.entity(user=user): limits for user, limits in FOREIGN.items()},
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
                self._heal(way)  # the world deletes the documents; the empty namespaces stay

    def _carry_out(self, way: Forwarder) -> None:
        """Operations and faults at the drawn times."""
        users, faults = (
            random.Random(f"{what} {self.settings.seed}") for what in ("users", "faults")
        )
        operation, fault = users.expovariate(self.settings.rate), 2.0
        begun = time.monotonic()
        while (due := min(operation, fault)) < self.settings.seconds:
            while (wait_seconds := begun + due - time.monotonic()) > 0:
                self._end_faults(way)
                time.sleep(min(wait_seconds, 0.05))
            if operation <= fault:
                operation += users.expovariate(self.settings.rate)
                self._operate(users)
            else:
                fault += faults.uniform(0.2, 1.8) * self.settings.every
                name = faults.choices(list(FAULTS), [weight for weight, _ in FAULTS.values()])[0]
                self._fail(name, FAULTS[name][1] * faults.random(), way)

    # ---- operations --------------------------------------------------------------------------

    def _operate(self, draw: random.Random) -> None:
        choice = draw.random()
        if not self._live or (choice < 0.3 and len(self._live) < self.settings.documents):
            self._create(draw, f"u{self.counts['create']:05}")
            return
        document = draw.choice(list(self._live.values()))
        if choice < 0.75:
            limits = _limits(draw)
            cleared = dict.fromkeys(document.limits.keys() - limits.keys())
            self._write(document, limits, {"spec": {"limits": {**limits, **cleared}}}, "update")
            return
        path = self._path(document)
        document.last = self.world.kube.api.get(path).body or {}
        _ = self.world.kube.api.call("DELETE", path).need()
        self._note("delete", document)
        self._deleted.append(self._live.pop(document.name))
        if draw.random() < 0.35 and document.deletion_policy == "Delete":
            self._create(draw, document.user)

    def _create(self, draw: random.Random, user: str) -> None:
        is_new = all(document.user != user for document in self._deleted)
        document = Document(
            name=f"d{self.counts['create']:05}",
            namespace=draw.choice(self._namespaces),
            user=user,
            limits={},
            deletion_policy="Retain" if is_new and draw.random() < 0.3 else "Delete",
        )
        limits = _limits(draw)
        body = World.document(
            document.name, user=user, limits=limits, deletionPolicy=document.deletion_policy
        )
        self._write(document, limits, body, "create")
        self._live[document.name] = document

    def _write(
        self, document: Document, limits: dict[str, int], body: Mapping[str, Any], verb: str
    ) -> None:
        is_new = verb == "create"
        answer = self.world.kube.api.call(
            "PATCH",
            self._path(document),
            body,
            kind=APPLY_PATCH if is_new else MERGE_PATCH,
            query={"fieldManager": "soak"} if is_new else {},
        )
        _ = answer.need()
        document.limits = limits
        document.tried |= document.declared().items()
        self._note(verb, document)

    def _path(self, document: Document) -> str:
        return f"{GROUP}/namespaces/{document.namespace}/clientquotas/{document.name}"

    def _note(self, what: str, about: object = "") -> None:
        self.counts[what] += 1
        self.history.append(f"{time.monotonic():.2f} {what} {about}")

    # ---- faults ------------------------------------------------------------------------------

    def _fail(self, name: str, seconds: float, way: Forwarder) -> None:
        kafka, operator = self.world.kafka, self._operator
        assert operator is not None
        self._note(name, f"for {seconds:.1f} s")
        match name:
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
        if seconds:
            self._ends.append((time.monotonic() + seconds, name))

    def _end_faults(self, way: Forwarder) -> None:
        if self._operator is not None and not self._operator.child.running:
            self._note("operator ended by itself")
            self._start(way, wait=False)
        for end in [end for end in self._ends if end[0] <= time.monotonic()]:
            self._ends.remove(end)
            if end[1].endswith("broker"):
                self._resume()
            else:
                way.heal()

    def _resume(self) -> None:
        if self.world.kafka.running():
            self.world.kafka.resume(1)
        else:
            self.world.kafka.start(1, wait=False)

    def _heal(self, way: Forwarder) -> None:
        way.heal()
        self._resume()
        self.world.kafka.wait_ready()

    def _start(self, way: Forwarder, *, wait: bool = True) -> None:
        place = self.world.place
        plain = self.world.kube.kubeconfig_for(place.namespace, place.account)
        self._operator = self.world.start(
            f"--kubeconfig={way.kubeconfig(plain)}",
            "--deletion-timeout=30m",
            "--no-leader-elect",
            ready=False,
        )
        if wait:
            eventually(self._operator.ready, seconds=60, what="the operator to be ready")

    # ---- afterwards --------------------------------------------------------------------------

    def _settle(self, way: Forwarder) -> str:
        """Wait until everything is as declared, as long as anything changes."""
        self._ends.clear()
        self._heal(way)
        healed = changed = time.monotonic()
        problems: list[str] | None = None
        while found_problems := list(self._problems()):
            self._end_faults(way)
            if found_problems != problems:
                problems, changed = found_problems, time.monotonic()
            if time.monotonic() - min(changed, healed + 450) > STANDSTILL_SECONDS:
                names = "\n".join(found_problems)
                raise AssertionError(f"{self.settings.again}\n{names}\n" + "\n".join(self.history))
            time.sleep(2.0)
        counts = ", ".join(f"{count} {what}" for what, count in sorted(self.counts.items()))
        return f"seed {self.settings.seed}: {counts}; as declared after {time.monotonic() - healed:.0f} s"

    def _problems(self) -> Iterator[str]:
        """What is not as declared, in Kafka, the documents, the records and the log."""
        yield from self._kafka_problems()
        api, place = self.world.kube.api, self.world.place
        objects = {
            item["metadata"]["name"]: item
            for namespace in self._namespaces
            for item in api.get(f"{GROUP}/namespaces/{namespace}/clientquotas").need()["items"]
        }
        yield from (f"{name} was deleted and is there" for name in objects.keys() - self._live)
        for name, document in self._live.items():
            if problem := _status_problem(objects.get(name), document):
                yield f"{name} {problem}"
        maps = api.get(f"/api/v1/namespaces/{place.namespace}/configmaps").need()["items"]
        labelled = [m for m in maps if "kafka-quotas.io/records" in m["metadata"].get("labels", {})]
        owned = read(self.world.kafka.cluster_id, labelled).owned
        yield from (f"an intent is left for {pair}" for pair in owned.intents)
        yield from (f"drift of {pair} is left" for pair in owned.drift_since)
        retained = {
            document.user for document in self._deleted if document.deletion_policy == "Retain"
        }
        names = {f"{document.namespace}/{document.name}" for document in self._live.values()}
        for subject, record in owned.records.items():
            for _, owner in record.pairs():
                if owner.document not in names and subject[0] not in retained:
                    yield f"a record of {subject[0]} is left by {owner.document}"
        if any("Traceback" in operator.log.read_text() for operator in self.world.operators):
            yield "a traceback in the log"

    def _kafka_problems(self) -> Iterator[str]:
        live = {
            str(dict(entity)["user"]): values
            for entity, values in raw_quotas.describe(self.world.kafka.port()).items()
        }
        for user, limits in FOREIGN.items():
            if (values := live.pop(user, {})) != limits:
                yield f"{user}: {limits} of another writer became {values}"
        declared = {document.user: document for document in self._live.values()}
        deleted = {document.user: document for document in self._deleted}
        for user in sorted(live.keys() | declared.keys() | deleted.keys()):
            values = live.get(user, {})
            if user in declared:
                if values != declared[user].declared():
                    yield f"{user}: {declared[user].declared()} is declared, {values} is live"
            elif deleted[user].deletion_policy == "Delete":
                if values:
                    yield f"{user}: {values} is live and was deleted with policy Delete"
            elif not (
                values.items() <= deleted[user].tried and _applied(deleted[user]) <= values.items()
            ):
                yield f"{user}: {values} is live of {_applied(deleted[user])} that were to stay"


def _limits(draw: random.Random) -> dict[str, int]:
    return {
        key: draw.choice(VALUES[:3] if key == KEYS[2] else VALUES)
        for key in draw.sample(KEYS, draw.randint(1, 2))
    }


def _applied(document: Document) -> set[tuple[str, float]]:
    """The values of a deleted document that its last status called applied."""
    metadata, status = document.last.get("metadata", {}), document.last.get("status", {})
    if status.get("observedGeneration") != metadata.get("generation"):
        return set()
    return {
        (key["key"], key["applied"])
        for key in status.get("keys", ())
        if "applied" in key and key.get("desired") == key["applied"]
    }


def _status_problem(item: Mapping[str, Any] | None, document: Document) -> str:
    """The difference between an object and what its document should have become."""
    if item is None:
        return "is gone and was not deleted"
    status = item.get("status", {})
    ready = [c for c in status.get("conditions", ()) if c["type"] == "Ready"]
    if [(c["status"], c["reason"]) for c in ready] != [("True", "Synced")]:
        return f"is {ready}"
    if status.get("observedGeneration") != item["metadata"]["generation"]:
        return "has a status of an earlier generation"
    shown_keys = {
        key["key"]: (key.get("desired"), key.get("applied"), key.get("live"))
        for key in status.get("keys", ())
    }
    expected = {key: (value, value, value) for key, value in document.declared().items()}
    if shown_keys != expected:
        return f"has a status that says {shown_keys}"
    is_finalized = FINALIZER in item["metadata"].get("finalizers", ())
    return "" if is_finalized == (document.deletion_policy == "Delete") else "has a wrong finalizer"
