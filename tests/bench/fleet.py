"""``kquota plan --all`` over sandbox clusters behind a relay of 40 ms, some of which accept and never answer.

The clusters run in a process of their own (``python -m tests.bench.fleet serve FOLDER NUMBER``); the command is a fresh
process. ``python -m tests.bench.fleet`` prints the table for 50, 500 and 2,000 clusters.
"""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from reconciler.sandbox import Sandbox, SandboxSettings
from tests.bench.harness import ROUNDS, Figures
from tests.cli.projects import CLUSTER, PROJECT, quota
from tests.fakes.relay import Relay

LINE_SECONDS = 0.020
"""One way: a round trip takes 40 ms."""

TIMEOUT_SECONDS = 5
HUNG_EVERY = 20
"""One cluster of twenty never answers."""

SIZES = (50, 500, 2000)


async def _never(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def serve(folder: Path, number: int) -> None:
    """Clusters and their project, until standard input ends."""
    async with AsyncExitStack() as stack:
        clusters = []
        for index in range(number):
            cluster_id = f"fleet{index:05}AAAAAAAAAAAA"
            if index % HUNG_EVERY == HUNG_EVERY - 1:
                server = await asyncio.start_server(_never, "127.0.0.1", 0)
                stack.callback(server.close)
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
        os._exit(0)  # hung connections and thousands of servers need no orderly end


@contextlib.contextmanager
def fleet(number: int) -> Iterator[Path]:
    """A folder with a project of this number of clusters, which run."""
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
    """One ``plan --all``: seconds of wall and CPU, MiB of memory, and what came of the clusters."""

    wall: float
    cpu: float
    peak_mb: float
    results: dict[str, int]


def planned(folder: Path, *options: str) -> FleetPlan:
    """Plan all clusters of a project in a fresh process."""
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
    with (folder / "out.json").open("w") as out, (folder / "err.txt").open("w") as err:
        process = subprocess.Popen(
            ["/usr/bin/env", *command], cwd=folder, env=environment, stdout=out, stderr=err
        )
        _, _, usage = os.wait4(process.pid, 0)
    wall = time.monotonic() - began
    summary = json.loads((folder / "out.json").read_text())["summary"]
    results: dict[str, int] = {}
    for row in summary:
        results[row["result"]] = results.get(row["result"], 0) + 1
    return FleetPlan(
        wall=wall,
        cpu=usage.ru_utime + usage.ru_stime,
        peak_mb=usage.ru_maxrss / 1024,
        results=results,
    )


def sampled() -> dict[str, Figures]:
    """500 clusters, of which 25 never answer: seconds beyond the configured timeout, and memory."""
    with fleet(500) as folder:
        plans = [planned(folder) for _ in range(ROUNDS)]
    for plan in plans:
        assert plan.results == {"ok": 475, "unreachable": 25}, plan.results
    return {
        "beyond": Figures(samples=tuple(plan.wall - TIMEOUT_SECONDS for plan in plans)),
        "peak_mb": Figures(samples=tuple(plan.peak_mb for plan in plans)),
    }


def main(words: Sequence[str]) -> None:
    if words[:1] == ["serve"]:
        asyncio.run(serve(Path(words[1]), int(words[2])))
        return
    print("| clusters | unreachable | wall s | above one timeout s | CPU s | MiB |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: |")
    for number in [int(word) for word in words] or SIZES:
        with fleet(number) as folder:
            plan = planned(folder)
        lost = plan.results.get("unreachable", 0)
        print(
            f"| {number:,} | {lost:,} | {plan.wall:.1f} | {plan.wall - TIMEOUT_SECONDS:.1f} |"
            f" {plan.cpu:.1f} | {plan.peak_mb:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
