"""Fleets as whole processes: slow connections, hanging clusters, refused logins, and entity types of other vendors."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Self

import pytest

from reconciler.base.listeners import close_listeners
from reconciler.sandbox import Sandbox, SandboxSettings
from reconciler.sandbox.authorizer import READER, Authorizer
from reconciler.sandbox.settings import Listener, ListenerProtocol
from tests.cli.projects import CLUSTER, PROJECT, manifests, quota
from tests.fakes.relay import Relay
from tests.servers.processes import HANG_SECONDS

pytestmark = pytest.mark.integration

CLUSTERS = 24
MANY = 500
HUNG, REFUSING = frozenset(range(3, MANY, 20)), frozenset(range(5, MANY, 12))
FOREIGN = 7
SECONDS_OF_HUNG = 3
LOGIN = """\
  properties:
    security.protocol: SASL_PLAINTEXT
    sasl.mechanism: PLAIN
    sasl.username: planner
    sasl.password: wrong
"""
BRIEF = f"  properties: {{default.api.timeout.ms: {SECONDS_OF_HUNG * 1000}}}\n"
"""The clusters that answer need as long as the machine lets them, so only the others have a short limit."""


def cluster_id(number: int) -> str:
    return f"fleet{number:03}AAAAAAAAAAAAAA"


class FleetThread:
    """The clusters in a separate event loop; `bootstrap` has the port of each."""

    def __init__(self, size: int) -> None:
        self.numbers = range(size)
        self.bootstrap: dict[int, str] = {}
        self.sandboxes: dict[int, Sandbox] = {}
        self._ready, self._stop = threading.Event(), asyncio.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(HANG_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(HANG_SECONDS)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with AsyncExitStack() as stack:
            for number in self.numbers:
                port = await self._port(stack, number)
                self.bootstrap[number] = f"127.0.0.1:{port}"
            self._ready.set()
            await self._stop.wait()

    async def _port(self, stack: AsyncExitStack, number: int) -> int:
        if number in HUNG:
            server = await asyncio.start_server(self._until_stopped, "127.0.0.1", 0)
            stack.push_async_callback(close_listeners, [server])
            return server.sockets[0].getsockname()[1]
        refusing = number in REFUSING
        protocol = ListenerProtocol.SASL_PLAINTEXT if refusing else ListenerProtocol.PLAINTEXT
        settings = SandboxSettings(
            cluster_id=cluster_id(number),
            listeners=(
                Listener(
                    name=protocol.value, protocol=protocol, host="127.0.0.1", port=0, tls=None
                ),
            ),
            users={"planner": "right"} if refusing else {},
            **({"authorizer": Authorizer(grants={"planner": READER})} if refusing else {}),
        )
        sandbox = await stack.enter_async_context(Sandbox(settings))
        self.sandboxes[number] = sandbox
        if number == FOREIGN:
            sandbox.seed({(("client-id-prefix", "etl-"),): {"producer_byte_rate": 4096.0}})
        upstream = int(sandbox.bootstrap().rpartition(":")[2])
        relay = await stack.enter_async_context(Relay(upstream, delay=0.02))
        return relay.port

    async def _until_stopped(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._stop.wait()
        writer.close()


@pytest.fixture(scope="module")
def fleet() -> Iterator[FleetThread]:
    with FleetThread(CLUSTERS) as running:
        yield running


@pytest.fixture
def folder(fleet, tmp_path) -> Path:
    write_project(tmp_path, fleet)
    return tmp_path


def write_project(folder: Path, fleet: FleetThread) -> None:
    clusters = []
    for number, bootstrap in fleet.bootstrap.items():
        spec = CLUSTER.format(name=name(number), bootstrap=bootstrap)
        properties = LOGIN if number in REFUSING else BRIEF if number in HUNG else ""
        clusters.append(f"{spec}  expectedClusterId: {cluster_id(number)}\n{properties}")
    (folder / "kquota.yaml").write_text("---\n".join([PROJECT, *clusters]))
    manifests(folder, *(quota(f"u{number}", cluster=name(number)) for number in fleet.numbers))


def name(number: int) -> str:
    return f"c{number:03}"


def kquota(folder: Path, *words: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of one command."""
    environment = {name: value for name, value in os.environ.items() if name != "CI"}
    environment["PYTHONPATH"] = str(Path(__file__).parents[2])
    ran = subprocess.run(
        [sys.executable, "-m", "reconciler", *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    return ran.returncode, ran.stdout, ran.stderr


def results(summary: list[dict[str, object]]) -> dict[int, object]:
    return {number: row["result"] for number, row in enumerate(summary)}


def expected(fleet: FleetThread) -> dict[int, object]:
    return {
        number: "unreachable" if number in HUNG | REFUSING else "ok" for number in fleet.numbers
    }


def reachable(fleet: FleetThread) -> set[int]:
    return set(fleet.numbers) - HUNG - REFUSING


def written(fleet: FleetThread) -> set[int]:
    """Clusters that have the limit of their document."""
    return {
        number
        for number, sandbox in fleet.sandboxes.items()
        if sandbox.values().get((("user", f"u{number}"),)) == {"producer_byte_rate": 10 * 1024**2}
    }


def test_a_plan_of_all_clusters_reports_each_failure(fleet, folder):
    code, output, err = kquota(folder, "plan", "--all", "--format", "json")
    document = json.loads(output)
    assert code == 1
    assert results(document["summary"]) == expected(fleet)
    assert [plan["cluster"] for plan in document["plans"]] == [
        name(number) for number in sorted(reachable(fleet))
    ]
    for number in REFUSING & set(fleet.numbers):
        part = err.partition(f"== {name(number)}")[2]
        assert "authentication" in part.lower()
    assert "clusters: " in err, "progress is reported during the wait for hanging clusters"


def test_a_foreign_entity_type_stops_neither_its_cluster_nor_the_others(fleet, folder):
    code, output, _ = kquota(folder, "apply", "--all", "--yes", "--format", "json")
    outcomes = {row["cluster"]: row["outcome"] for row in json.loads(output)["outcomes"]}
    assert code == 1
    assert outcomes[name(FOREIGN)]["complete"] is True
    values = fleet.sandboxes[FOREIGN].values()
    assert values[("client-id-prefix", "etl-"),] == {"producer_byte_rate": 4096.0}
    assert written(fleet) == reachable(fleet)


def test_the_second_apply_of_a_fleet_has_no_changes(fleet, folder):
    for _ in range(2):
        code, output, _ = kquota(folder, "apply", "--all", "--yes")
        assert code == 1
    assert "0 changes, 0 drifted" in output.splitlines()[-1]


def test_drift_and_doctor_of_a_fleet_continue_beside_hung_clusters(fleet, folder):
    code, output, _ = kquota(folder, "drift", "--all", "--format", "json")
    assert (code, len(json.loads(output)["clusters"])) == (1, len(reachable(fleet)))
    code, output, _ = kquota(folder, "doctor", "--all")
    assert code == 1
    assert output.splitlines()[-1].startswith(
        f"{CLUSTERS} clusters: {len(reachable(fleet))} ok, {CLUSTERS - len(reachable(fleet))} unreachable"
    )


def test_five_hundred_clusters_are_planned_and_written_past_every_failure(tmp_path) -> None:
    with FleetThread(MANY) as fleet:
        write_project(tmp_path, fleet)
        code, output, _ = kquota(tmp_path, "plan", "--all", "--format", "json")
        document = json.loads(output)
        assert (code, results(document["summary"])) == (1, expected(fleet))
        assert len(document["plans"]) == len(reachable(fleet))
        code, output, _ = kquota(tmp_path, "apply", "--all", "--yes", "--format", "json")
        outcomes = {row["cluster"]: row["outcome"] for row in json.loads(output)["outcomes"]}
        assert code == 1
        assert [row for row in outcomes.values() if row is not None and not row["complete"]] == []
        assert written(fleet) == reachable(fleet)
