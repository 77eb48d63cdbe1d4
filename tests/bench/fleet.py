"""``kquota plan --all`` over sandbox clusters behind a relay of 40 ms; some accept connections and never respond.

The clusters run in a separate process (``python -m tests.bench.fleet serve FOLDER NUMBER``); the command is a new
process.
"""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from reconciler.base.listeners import close_listeners
from reconciler.sandbox import Sandbox, SandboxSettings
from tests.bench.harness import ROUNDS, Figures
from tests.cli.projects import CLUSTER, PROJECT, quota
from tests.fakes.relay import Relay

LINE_SECONDS = 0.020
"""One direction: a round trip takes 40 ms."""

TIMEOUT_SECONDS = 5
HUNG_EVERY = 20
"""One cluster of twenty never responds."""

SIZES = (50, 500, 2_000)
BAR_SIZE = 500


async def _never(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def serve(folder: Path, number: int) -> None:
    """Serve clusters and their project until standard input ends."""
    async with AsyncExitStack() as stack:
        clusters = []
        for index in range(number):
            cluster_id = f"fleet{index:05}AAAAAAAAAAAA"
            if index % HUNG_EVERY == HUNG_EVERY - 1:
                server = await asyncio.start_server(_never, "127.0.0.1", 0)
                stack.push_async_callback(close_listeners, [server])
                port = server.sockets[0].getsockname()[1]
            else:
                sandbox = await stack.enter_async_context(
                    Sandbox(SandboxSettings(cluster_id=cluster_id))
                )
                upstream = int(sandbox.bootstrap().rpartition(":")[2])
                relay = await stack.enter_async_context(Relay(upstream, delay=LINE_SECONDS))
                port = relay.port
            spec = CLUSTER.format(name=f"c{index:05}", bootstrap=f"127.0.0.1:{port}")
            clusters.append(spec + f"  expectedClusterId: {cluster_id}\n")
        (folder / "kquota.yaml").write_text("---\n".join([PROJECT, *clusters]))
        (folder / "quotas").mkdir()
        documents = (
            quota(f"u{index}-{at}", cluster=f"c{index:05}")
            for index in range(number)
            for at in range(3)
        )
        (folder / "quotas" / "all.yaml").write_text("".join(documents))
        print("ready", flush=True)  # the parent process waits for this line
        await asyncio.to_thread(sys.stdin.read)
        os._exit(0)  # hanging connections and thousands of servers are not closed in order


@contextlib.contextmanager
def fleet(number: int) -> Iterator[Path]:
    """A folder with a project of this number of running clusters."""
    with tempfile.TemporaryDirectory(prefix="fleet-") as name:
        command = [sys.executable, "-m", "tests.bench.fleet", "serve", name, str(number)]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as server:
            assert server.stdin is not None
            assert server.stdout is not None
            assert server.stdout.readline() == "ready\n"
            try:
                yield Path(name)
            finally:
                server.stdin.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPlan:
    """One ``plan --all``: wall and CPU seconds, MiB of memory, and the results of the clusters."""

    wall: float
    cpu: float
    peak_mb: float
    results: dict[str, int]


def planned(folder: Path, *options: str) -> FleetPlan:
    """Plan all clusters of a project in a new process."""
    command = [
        sys.executable,
        "-m",
        "reconciler",
        "plan",
        "--all",
        "--format",
        "json",
        "--timeout",
        f"{TIMEOUT_SECONDS}s",
        *options,
    ]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    environment.pop("CI", None)
    began = time.monotonic()
    with (folder / "out.json").open("w") as output, (folder / "err.txt").open("w") as err:
        process = subprocess.Popen(
            ["/usr/bin/env", *command], cwd=folder, env=environment, stdout=output, stderr=err
        )
        _, _, usage = os.wait4(process.pid, 0)
    wall = time.monotonic() - began
    document = json.loads((folder / "out.json").read_text())
    # The document of a single cluster is the plan itself, which is printed only after a success.
    rows = document.get("summary", [{"result": "ok"}])
    results: dict[str, int] = {}
    for row in rows:
        results[row["result"]] = results.get(row["result"], 0) + 1
    return FleetPlan(
        wall=wall,
        cpu=usage.ru_utime + usage.ru_stime,
        peak_mb=usage.ru_maxrss / 1024,
        results=results,
    )


def sampled(number: int) -> dict[str, Figures]:
    """Seconds beyond the configured timeout, CPU and memory of ``plan --all`` over a fleet of this size."""
    hung = number // HUNG_EVERY
    with fleet(number) as folder:
        plans = [planned(folder) for _ in range(ROUNDS)]
    for plan in plans:
        assert plan.results == {"ok": number - hung, "unreachable": hung}, plan.results
    return {
        "beyond": Figures(samples=tuple(plan.wall - TIMEOUT_SECONDS for plan in plans)),
        "cpu": Figures(samples=tuple(plan.cpu for plan in plans)),
        "peak_mb": Figures(samples=tuple(plan.peak_mb for plan in plans)),
    }


def round_trips() -> Figures:
    """Round trips of ``kquota plan`` behind the relay: connection, ApiVersions, pipelined reads, validation."""
    return Figures(samples=(float(asyncio.run(_round_trips())),))


async def _round_trips() -> int:
    cluster_id = "fleet00000AAAAAAAAAAAA"
    async with (
        Sandbox(SandboxSettings(cluster_id=cluster_id)) as sandbox,
        Relay(int(sandbox.bootstrap().rpartition(":")[2]), delay=LINE_SECONDS) as relay,
    ):
        with tempfile.TemporaryDirectory(prefix="fleet-") as name:
            folder = Path(name)
            spec = CLUSTER.format(name="c00000", bootstrap=f"127.0.0.1:{relay.port}")
            spec += f"  expectedClusterId: {cluster_id}\n"
            (folder / "kquota.yaml").write_text(f"{PROJECT}---\n{spec}")
            (folder / "quotas").mkdir()
            (folder / "quotas" / "all.yaml").write_text(quota("u0", cluster="c00000"))
            plan = await asyncio.to_thread(planned, folder)
        assert plan.results == {"ok": 1}, plan.results
        return relay.round_trips


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[2]), int(sys.argv[3])))
