"""``python -m tests.simulation.planted [WORDS]``: lists which planted faults the simulation finds, and with which seed.

Each fault of `tests.mutants` and of the operator in code that the simulation runs gets a process of its own, which imports
the product with the faulty text of its module and runs worlds until a law is violated or its CPU time is used up. No file
is written. The processes are forked from one that has imported everything else.
"""

import argparse
import importlib
import importlib.abc
import importlib.machinery
import logging
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from types import CodeType, ModuleType

from tests.mutants.__main__ import FAULTS, ROOT
from tests.mutants.fault import Fault, read_faults

SIMULATED_FAULTS = (*read_faults(ROOT / "tests/simulation/faults.txt"),)
"""Faults of the operator and of a watched branch, which no other test names."""

SIMULATED = (
    "reconciler/quota/planner/comparison.py",
    "reconciler/quota/planner/guards.py",
    "reconciler/quota/planner/intent_settlement.py",
    "reconciler/quota/planner/permitted_plan.py",
    "reconciler/quota/planner/removal_guard.py",
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

OPERATED, FOLLOWED = "reconciler/kube/", "reconciler/app/watch/"
"""Prefixes of files whose faults are searched in simulations of operators and of a watched branch."""

SEARCHED = tuple(
    fault
    for fault in (*FAULTS, *SIMULATED_FAULTS)
    if fault.file.startswith((*SIMULATED, OPERATED, FOLLOWED))
)

DAYS = {"watch": 0.007, "git": 0.007, "operator": 0.004}
"""Kind of world -> days of faults in its worlds: a short world has as many writes for a second of CPU as a long one."""

LONGEST_WORLD_SECONDS = 60
"""CPU seconds after which a world counts as one that does not end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedResult:
    """The result of the search for a fault: the seed that found it (0 = none), the law, the number of worlds, CPU seconds."""

    seed: int
    law: str
    worlds: int
    seconds: float


class FaultySource(importlib.abc.MetaPathFinder, importlib.machinery.SourceFileLoader):
    """Imports the faulty text of one module, and counts as its loader."""

    def __init__(self, fault: Fault) -> None:
        name = fault.file.removesuffix(".py").replace("/", ".")
        importlib.machinery.SourceFileLoader.__init__(self, name, str(ROOT / fault.file))
        self._fault = fault

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the specification of the module of the fault."""
        if fullname != self.name:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, origin=self.path)

    def get_code(self, fullname: str) -> CodeType:
        """Compile the text with the fault; bytecode of the correct text does not count."""
        text = (ROOT / self._fault.file).read_text()
        if text.count(self._fault.old) != 1:
            raise SystemExit(f"{self._fault.file} has not exactly one: {self._fault.old}")
        return compile(text.replace(self._fault.old, self._fault.new), self.path, "exec")


def world_of(fault: Fault) -> str:
    """Return the kind of world whose programs run the code of the fault."""
    if fault.file.startswith(FOLLOWED):
        return "git"
    return "operator" if fault.file.startswith(OPERATED) else "watch"


def import_product() -> None:
    """Import everything that worlds import, then forget the product and the simulation."""
    _ = importlib.import_module("tests.simulation.search")
    for name in [name for name in sys.modules if name.startswith(("reconciler", "tests."))]:
        del sys.modules[name]


def search(number: int, *, first: int, seeds: int, seconds: float, days: float) -> PlantedResult:
    """Run worlds with a fault in this process, which has not imported the product."""
    fault = SEARCHED[number]
    sys.meta_path.insert(0, FaultySource(fault))
    _ = signal.signal(signal.SIGXCPU, signal.default_int_handler)
    world, started, worlds = world_of(fault), time.process_time(), 0
    seed, law = 0, ""
    try:
        outline = importlib.import_module("tests.simulation.search").outline
        scenario_of = importlib.import_module("tests.simulation.scenario").scenario_of
        while not law and worlds < seeds and time.process_time() - started < seconds:
            seed, worlds = first + worlds, worlds + 1
            limit = int(time.process_time()) + LONGEST_WORLD_SECONDS
            resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
            law = outline(scenario_of(seed, world, days=days or DAYS[world])).violation
    except KeyboardInterrupt:
        law = f"no end within {LONGEST_WORLD_SECONDS} s of CPU"
    return PlantedResult(
        seed=seed if law else 0, law=law, worlds=worlds, seconds=time.process_time() - started
    )


def main(words: Sequence[str]) -> int:
    """Print a line for each fault; return 0 if all were found."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        # The order of sets of strings depends on it, and a seed must always give the same world.
        command = [sys.executable, "-m", "tests.simulation.planted", *words]
        return subprocess.call(command, env={**os.environ, "PYTHONHASHSEED": "0"})
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.planted", description=__doc__)
    parser.add_argument(
        "words", nargs="*", help="faults whose file or description holds all of them"
    )
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="CPU seconds in which one fault is looked for"
    )
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=10_000)
    parser.add_argument(
        "--days", type=float, default=0.0, help="length of a world; 0 = short worlds"
    )
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args(words)
    numbers = [
        number
        for number, fault in enumerate(SEARCHED)
        if all(word in f"{fault.file} {fault.what}" for word in arguments.words)
    ]
    import_product()
    logging.disable()
    missed = 0
    work = partial(
        search,
        first=arguments.first,
        seeds=arguments.seeds,
        seconds=arguments.seconds,
        days=arguments.days,
    )
    processes = multiprocessing.get_context("fork")
    with processes.Pool(arguments.workers, maxtasksperchild=1) as pool:
        results = pool.imap(work, numbers, chunksize=1)
        for number, result in zip(numbers, results, strict=True):
            fault = SEARCHED[number]
            missed += not result.seed
            word = f"seed {result.seed}" if result.seed else f"not in {result.worlds}"
            file = fault.file.removeprefix("reconciler/")
            _ = sys.stdout.write(
                f"{word:14} {result.seconds:5.0f} s  {file:36} {fault.what}: {result.law[:100]}\n"
            )
            _ = sys.stdout.flush()
    _ = sys.stdout.write(f"{len(numbers)} faults, {len(numbers) - missed} found, {missed} not\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
