"""One run on a real broker: demand without limits, then the same with limits; metrics, and results of records."""

import asyncio
import csv
import json
import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from reconciler.client import ClientConfig, QuotaClient
from reconciler.quota.entity import DEFAULT, Entity, entity
from reconciler.quota.state import Alteration, Applied
from tests.recording.runs import TELEMETRY_LIMIT, Group, Level, Run
from tests.servers import exporter, tools
from tests.servers.kafka import KafkaCluster
from tests.servers.processes import Child, ScratchFolder
from tests.servers.prometheus import Prometheus
from tests.servers.properties import Listener

DRIVER: Final = tools.JavaSource(
    path=Path(__file__).parent / "LoadDriver.java", class_name="LoadDriver"
)
SHIPPED_SCRAPE: Final = exporter.SHIPPED.with_name("prometheus.yml")
CLUSTER_LABEL: Final = "recorded"
SCRAPE_SECONDS: Final = 5
PHASE_SECONDS: Final = 310
READY_SECONDS: Final = 90
"""Maximum time from the start of the driver to its first record: a JVM, and all connections."""

PASSWORD: Final = "not-a-secret"  # noqa: S105 - of users of a temporary broker
KEYS: Final = {"produce": "producer_byte_rate", "fetch": "consumer_byte_rate"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record: epoch milliseconds; ``done_ms`` is ``None`` if it never arrived."""

    group: str
    due_ms: int
    sent_ms: int
    done_ms: int | None
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One half of a run: its time, and the result of each record."""

    from_ms: int
    to_ms: int
    records: tuple[Record, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A recorded run: ``matrix`` is Prometheus' response with stored samples, ``load`` the machine's load averages."""

    run: Run
    cluster_id: str
    limits: Mapping[str, int]
    before: tuple[tuple[Entity, str, float], ...]
    after: tuple[tuple[Entity, str, float], ...]
    free: Phase
    limited: Phase
    matrix: dict[str, Any]
    load: tuple[float, ...]


@dataclass(slots=True)
class _Load:
    """The load average of the last minute, every ten seconds until stopped."""

    averages: list[float] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def watch(self) -> None:
        while not self.stop.wait(10):
            self.averages.append(os.getloadavg()[0])


def record(run: Run, *, phase_seconds: int = PHASE_SECONDS, say: Any = print) -> Recorded:
    """Start a broker with the shipped agent and Prometheus with the shipped scrape job, and run both halves.

    Raises:
        ServersUnavailable: Java, Maven or Prometheus is missing.
        AssertionError: The driver or a limit failed.
    """
    users = {"admin": PASSWORD} | dict.fromkeys(_users(run), PASSWORD)
    listeners = (Listener.PLAINTEXT, Listener.SASL_PLAINTEXT)
    load = _Load()
    watching = threading.Thread(target=load.watch, daemon=True)
    with (
        KafkaCluster(
            run.version, listeners=listeners, users=users, metrics=exporter.SHIPPED
        ) as cluster,
        Prometheus(scrape_configuration(cluster.metrics_port())) as prometheus,
    ):
        watching.start()
        before = telemetry_limits(run.level)
        alter(cluster.bootstrap(), before)
        began = time.time()  # noqa: TID251 - a recording is of the real time
        say(f"run {run.number}: without limits")
        free = drive(cluster, run, "free", phase_seconds)
        limits = {group.name: run.limit(group) for group in run.groups}
        after = limits_of(run.level, run.groups, limits)
        alter(cluster.bootstrap(), after)
        say(f"run {run.number}: with limits")
        limited = drive(cluster, run, "limited", phase_seconds)
        load.stop.set()
        return Recorded(
            run=run,
            cluster_id=cluster.cluster_id,
            limits=limits,
            before=before,
            after=(*before, *after),
            free=free,
            limited=limited,
            matrix=stored(prometheus, began),
            load=tuple(load.averages),
        )


def scrape_configuration(port: int, every_seconds: int = SCRAPE_SECONDS) -> dict[str, Any]:
    """The shipped configuration of Prometheus, for one broker and another scrape step."""
    configuration: dict[str, Any] = yaml.safe_load(SHIPPED_SCRAPE.read_text(encoding="utf-8"))
    (job,) = configuration["scrape_configs"]
    job |= {"scrape_interval": f"{every_seconds}s", "scrape_timeout": f"{every_seconds - 1}s"}
    job["static_configs"] = [
        {"targets": [f"127.0.0.1:{port}"], "labels": {"cluster": CLUSTER_LABEL}}
    ]
    return configuration


def stored(prometheus: Prometheus, since: float) -> dict[str, Any]:
    """All stored samples since a time, unchanged: an instant query with a range selector."""
    now = time.time()  # noqa: TID251 - a recording is of the real time
    query = f'{{job="kafka-quotas",__name__!~"scrape_.*"}}[{int(now - since) + 5}s]'
    answer: dict[str, Any] = prometheus.get("/api/v1/query", query=query, time=f"{now:.3f}")
    return answer


# ---- limits -------------------------------------------------------------------------------------


def telemetry_limits(level: Level) -> tuple[tuple[Entity, str, float], ...]:
    """Limits so high that they have no effect except that the broker counts, on one level."""
    parts = {
        "user": entity(user=DEFAULT),
        "pair": entity(user=DEFAULT, client_id=DEFAULT),
        "client": entity(client_id=DEFAULT),
    }
    return tuple((parts[level], key, TELEMETRY_LIMIT) for key in KEYS.values())


def limits_of(
    level: Level, groups: Sequence[Group], limits: Mapping[str, int]
) -> tuple[tuple[Entity, str, float], ...]:
    """The limits of the second half."""
    return tuple(
        (subject(level, group.name), KEYS[group.kind], float(limits[group.name]))
        for group in groups
    )


def subject(level: Level, name: str) -> Entity:
    """The entity of a group on a level."""
    match level:
        case "user":
            return entity(user=name)
        case "client":
            return entity(client_id=name)
        case "pair":
            return entity(user=name, client_id=f"{name}-app")


def alter(bootstrap: str, limits: Sequence[tuple[Entity, str, float | None]]) -> None:
    """Set limits with the project's client, and wait until the broker shows them."""

    async def change() -> None:
        changes = [Alteration(who, ((key, value),)) for who, key, value in limits]
        async with QuotaClient(
            ClientConfig.from_mapping({"bootstrap.servers": bootstrap})
        ) as client:
            merged: dict[Entity, list[tuple[str, float | None]]] = {}
            for alteration in changes:
                merged.setdefault(alteration.entity, []).extend(alteration.operations)
            expected_alterations = [
                Alteration(who, tuple(operations)) for who, operations in merged.items()
            ]
            results = await client.alter(expected_alterations)
            assert set(results.values()) == {Applied()}, results
            assert (await client.wait_visible(expected_alterations)).everywhere

    asyncio.run(change())


# ---- load ---------------------------------------------------------------------------------------


def drive(cluster: KafkaCluster, run: Run, phase: str, seconds: int) -> Phase:
    """Run all clients of a run once; return when all records have arrived and the phase has ended."""
    owners: list[str] = []
    streams: list[dict[str, Any]] = []
    for group in run.groups:
        for place, schedule in enumerate(run.schedules(group)):
            owners.append(group.name)
            streams.append(
                {
                    **_clients(cluster, run, group, place),
                    "topic": f"{phase}-{group.name}-{place}",
                    "partition": 0,
                    "dueMs": schedule.due_ms,
                    "bytes": schedule.sizes,
                }
            )
    with ScratchFolder.make("driver-") as scratch:
        plan, answer = scratch / "plan.json", scratch / "records.csv"
        plan.write_text(
            json.dumps({"lastsMs": seconds * 1000, "streams": streams}), encoding="utf-8"
        )
        words = tools.command(run.version, DRIVER, str(plan), str(answer))
        child = Child(words, log=scratch / "log")
        assert child.ended_within(READY_SECONDS + seconds), child.log_text()[-2000:]
        assert child.process.returncode == 0, child.log_text()[-2000:]
        with answer.open(encoding="utf-8", newline="") as rows:
            records = tuple(_record(owners, row) for row in csv.reader(rows))
    start = records[0].due_ms - streams[0]["dueMs"][0]
    stop = start + seconds * 1000
    pause = stop / 1000 - time.time()  # noqa: TID251 - the real duration of the phase
    threading.Event().wait(max(0.0, pause))
    return Phase(from_ms=start, to_ms=stop, records=records)


def _record(owners: Sequence[str], row: Sequence[str]) -> Record:
    stream, _, due, sent, done, size = map(int, row)
    return Record(
        group=owners[stream],
        due_ms=due,
        sent_ms=sent,
        done_ms=None if done < 0 else done,
        size=size,
    )


def _users(run: Run) -> list[str]:
    return ["feeder", *(group.name for group in run.groups)]


def _client_id(run: Run, group: Group, place: int) -> str:
    """On the user level a bucket has many client ids, otherwise all connections share one."""
    shared = {"user": f"{group.name}-app-{place}", "pair": f"{group.name}-app"}
    return shared.get(run.level, group.name)


def _clients(cluster: KafkaCluster, run: Run, group: Group, place: int) -> dict[str, object]:
    def login(user: str, client_id: str) -> dict[str, str]:
        return cluster.client_properties(Listener.SASL_PLAINTEXT, user=user) | {
            "client.id": client_id
        }

    patient = {"delivery.timeout.ms": "900000", "linger.ms": "0", "buffer.memory": "134217728"}
    client_id = _client_id(run, group, place)
    if group.kind == "produce":
        lingering = {"linger.ms": str(group.linger_ms)}
        return {"properties": login(group.name, client_id) | patient | lingering, "consumer": None}
    return {
        "properties": login("feeder", f"feeder-{group.name}") | patient,
        "consumer": login(group.name, client_id)
        | {
            "max.partition.fetch.bytes": str(group.fetch_bytes),
            "enable.auto.commit": "false",
            "auto.offset.reset": "earliest",
        },
    }
