"""What one change, one deletion, a minute of rest and a restart cost with 1,000, 5,000 and 20,000 resources.

python -m tests.bench.operator_curve 1000 5000
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.bench import operator_load
from tests.bench.harness import say
from tests.bench.operator_load import GROUP, Bench, cpu_seconds, is_ready, metric, until
from tests.servers.ports import free_ports
from tests.servers.processes import Child

IDLE_SECONDS = 130.0
"""More than one interval of the operator."""


def resident_megabytes(pid: int) -> float:
    """The memory that a process has resident now."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(float(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def timed(work: Callable[[], object], child: Child) -> tuple[float, float]:
    """Seconds of wall time and of the process's CPU."""
    cpu, start = cpu_seconds(child.process.pid), time.perf_counter()
    _ = work()
    wall = time.perf_counter() - start
    time.sleep(3.0)  # What follows a change belongs to it.
    return wall, cpu_seconds(child.process.pid) - cpu


def measure(bench: Bench, count: int) -> dict[str, float]:
    """All figures for so many resources, in seconds and MB."""
    operator_load.RESOURCES = count
    figures: dict[str, float] = {}
    with bench.broker() as bootstrap, bench.resources(bootstrap) as namespace:
        path = f"{GROUP}/namespaces/{namespace}/clientquotas"

        def get(name: str) -> dict[str, Any]:
            return dict(bench.kube.api.get(f"{path}/{name}").need())

        before = bench.writes()
        start = time.perf_counter()
        child = bench.ours(bootstrap)
        try:
            bench.wait_ready(child, namespace, before)
            figures["first"] = time.perf_counter() - start
            figures["first_cpu"] = cpu_seconds(child.process.pid)
            _ = bench.settled(before)
            for number in range(3):
                obj = get("user-1")
                obj["spec"]["limits"]["producerByteRate"] = 2_000_000 + number
                bench.kube.api.call("PUT", f"{path}/user-1", obj).need()
                generation = obj["metadata"]["generation"] + 1

                def is_synced(generation: int = generation) -> bool:
                    present = get("user-1")
                    return present["metadata"]["generation"] == generation and is_ready(present)

                wall, cpu = timed(lambda: until(is_synced, "the change"), child)
                figures["change"], figures["change_cpu"] = wall, cpu
            obj = get("user-2")
            obj["spec"]["deletionPolicy"] = "Delete"
            bench.kube.api.call("PUT", f"{path}/user-2", obj).need()
            until(lambda: bool(get("user-2")["metadata"].get("finalizers")), "the finalizer")
            time.sleep(3.0)
            bench.kube.api.call("DELETE", f"{path}/user-2").need()

            def is_gone() -> bool:
                return bench.kube.api.get(f"{path}/user-2").status == 404

            figures["delete"], figures["delete_cpu"] = timed(
                lambda: until(is_gone, "the deletion"), child
            )
            cpu = cpu_seconds(child.process.pid)
            time.sleep(IDLE_SECONDS)
            figures["idle_cpu_minute"] = (cpu_seconds(child.process.pid) - cpu) * 60 / IDLE_SECONDS
            figures["resident"] = resident_megabytes(child.process.pid)
            child.process.terminate()
            start = time.perf_counter()
            _ = child.process.wait(30)
            port = bench.turn_port = free_ports(1)[0]
            child = bench.ours(bootstrap, port=port)
            until(lambda: metric(port, "kquota_passes_total") >= 1.0, "a reconciliation")
            figures["restart"] = time.perf_counter() - start
            figures["restart_cpu"] = cpu_seconds(child.process.pid)
            values = ", ".join(f"{name} {value:.2f}" for name, value in figures.items())
            say(f"{count}: {values}")  # Before the resources are deleted, which may take minutes.
        finally:
            child.kill()
    return figures


def main() -> None:
    """Measure each count of the command line and print one line for each."""
    with operator_load.workspace() as bench:
        for count in map(int, sys.argv[1:] or ["1000", "5000", "20000"]):
            _ = measure(bench, count)


if __name__ == "__main__":
    main()
