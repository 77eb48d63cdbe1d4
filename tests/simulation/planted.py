"""``python -m tests.simulation.planted [WORDS]``: lists which planted faults the simulation finds, and with which seed.

Plants each fault of `tests.mutants` and of the operator, in code that the simulation runs, in a copy of the project; then
runs seeds 1, 2, … there until a law is violated or the time is over.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.__main__ import FAULTS, copy_project
from tests.mutants.fault import Fault
from tests.simulation.kube.planted_faults import OPERATOR_FAULTS

SIMULATED = (
    "reconciler/quota/planner/comparison.py",
    "reconciler/quota/planner/guards.py",
    "reconciler/quota/planner/intent_settlement.py",
    "reconciler/quota/planner/removal_budgets.py",
    "reconciler/quota/planner/send_order.py",
    "reconciler/quota/planner/three_way_table.py",
    "reconciler/quota/entity.py",
    "reconciler/quota/keys.py",
    "reconciler/quota/ownership.py",
    "reconciler/quota/policy.py",
    "reconciler/quota/state.py",
    "reconciler/reconcile/",
    "reconciler/app/loop/",
    "reconciler/client/alteration",
    "reconciler/client/visibility.py",
)
"""Prefixes of the paths of files whose faults are planted."""

OPERATED = "reconciler/kube/"
"""Prefix of files whose faults are searched in simulations of operators."""

SEARCHED = (*FAULTS, *OPERATOR_FAULTS)

FOUND = re.compile(r"again: make simulate SEED=(\d+)")
LAW = re.compile(r"law broken: (.*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedResult:
    """The result of the search for a fault: the seed that found it (0 = none), the law, the number of worlds, the time."""

    fault: Fault
    seed: int
    law: str
    worlds: int
    seconds: float


def search(fault: Fault, *, seconds: float, seeds: int, days: float) -> PlantedResult:
    """Plant a fault and run the simulation until it is found.

    Args:
        fault: The fault.
        seconds: Maximum time.
        seeds: Maximum number of worlds.
        days: Length of a world in days; 0 = by its seed.
    """
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="planted-") as place:
        folder = copy_project(Path(place))
        path = folder / fault.file
        text = path.read_text()
        if text.count(fault.old) != 1:
            raise SystemExit(f"{fault.file} has not exactly one: {fault.old}")
        _ = path.write_text(text.replace(fault.old, fault.new))
        command = [
            sys.executable,
            "-m",
            "tests.simulation",
            "--world",
            "operator" if fault.file.startswith(OPERATED) else "watch",
            "--first",
            "1",
            "--seeds",
            str(seeds),
            "--seconds",
            str(seconds),
            "--workers",
            "1",
            "--failures",
            "1",
            "--no-shrink",
            "--days",
            str(days),
        ]
        environment = {
            **os.environ,
            "PYTHONPATH": str(folder),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0",
        }
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
    seed, law = FOUND.search(done.stdout), LAW.search(done.stdout)
    worlds = re.search(r"(\d+) worlds", done.stdout)
    return PlantedResult(
        fault=fault,
        seed=int(seed[1]) if seed else 0,
        law=law[1][:100] if law else done.stderr[-200:].strip().replace("\n", " "),
        worlds=int(worlds[1]) if worlds else 0,
        seconds=time.monotonic() - started,
    )


def main(words: Sequence[str]) -> int:
    """Print a line for each fault; return 0 if all were found."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.planted", description=__doc__)
    parser.add_argument(
        "words", nargs="*", help="faults whose file or description holds all of them"
    )
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="how long one fault is looked for"
    )
    parser.add_argument("--seeds", type=int, default=10_000)
    parser.add_argument(
        "--days", type=float, default=0.0, help="length of a world; 0 = by its seed"
    )
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args(words)
    faults = [
        fault
        for fault in SEARCHED
        if fault.file.startswith((*SIMULATED, OPERATED))
        and all(word in f"{fault.file} {fault.what}" for word in arguments.words)
    ]
    missed = 0
    with ThreadPoolExecutor(arguments.workers) as pool:
        for result in pool.map(
            lambda fault: search(
                fault, seconds=arguments.seconds, seeds=arguments.seeds, days=arguments.days
            ),
            faults,
        ):
            missed += not result.seed
            word = f"seed {result.seed}" if result.seed else f"not in {result.worlds}"
            file = result.fault.file.removeprefix("reconciler/")
            sys.stdout.write(
                f"{word:14} {result.seconds:5.0f} s  {file:36} {result.fault.what}: {result.law}\n"
            )
            sys.stdout.flush()
    sys.stdout.write(f"{len(faults)} faults, {len(faults) - missed} found, {missed} not\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
