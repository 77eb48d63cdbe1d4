"""``python -m tests.simulation``: runs one seed and prints its trace, or runs many seeds for a given time."""

import argparse
import os
import secrets
import subprocess
import sys
import time

from tests.simulation.scenario import WORLDS, Scenario, scenario_of
from tests.simulation.search import explore, from_seed, shrink, simulate, story, without
from tests.simulation.world import WorldResult

FRESH_SEEDS = 1 << 48
"""New seeds are below this number."""


def say(text: str) -> None:
    """Print a line and flush."""
    _ = sys.stdout.write(text + "\n")
    sys.stdout.flush()


def broken(result: WorldResult, *, shrinks: bool) -> None:
    """Print a world that violates a law, after shrinking it if requested."""
    say(f"\nlaw broken: {result.violation}")
    say(f"  again: {result.scenario.command}")
    if shrinks:
        result = shrink(simulate(result.scenario))
        say(f"  smaller: {result.scenario.command}\n  {result.violation}")
    for line in story(result):
        say(f"    {line}")


def alone(scenario: Scenario, *, shrinks: bool) -> int:
    """Run one seed and print its trace; return the exit code."""
    result = simulate(scenario)
    if result.violation:
        broken(result, shrinks=shrinks)
        return 1
    for line in story(result):
        say(line)
    say(f"{result.seconds:,.0f} simulated seconds, {result.own_commits} writes, all laws hold")
    return 0


def many(arguments: argparse.Namespace, absent: list[str]) -> int:
    """Run many seeds on all cores until ``--failures`` violations; return the exit code."""
    first = arguments.first if arguments.first is not None else secrets.randbelow(FRESH_SEEDS)
    started, seconds, worlds, writes = time.monotonic(), 0.0, 0, 0
    failures: list[WorldResult] = []

    def report(result: WorldResult) -> bool:
        nonlocal seconds, worlds, writes
        seconds, worlds, writes = seconds + result.seconds, worlds + 1, writes + result.own_commits
        if result.violation:
            failures.append(result)
            broken(result, shrinks=arguments.shrink)
        return len(failures) < arguments.failures

    explore(
        from_seed(first, arguments.seeds),
        world=arguments.world,
        days=arguments.days,
        absent=absent,
        workers=arguments.workers,
        seconds=arguments.seconds,
        report=report,
    )
    wall = time.monotonic() - started
    say(
        f"seeds {first} to {first + worlds - 1}: {worlds} worlds, {seconds / 86_400:.1f} simulated days"
        f" ({seconds / 86_400 / wall * 60:.0f} a minute), {writes} writes, {len(failures)} laws broken, {wall:.0f} s"
    )
    return 1 if failures else 0


def main() -> int:
    """Run the command line; return 0 if all laws hold."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        # The order of sets of strings depends on it, and a seed must always give the same world.
        command = [sys.executable, "-m", "tests.simulation", *sys.argv[1:]]
        return subprocess.call(command, env={**os.environ, "PYTHONHASHSEED": "0"})
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this seed alone and print its story")
    parser.add_argument(
        "--world", choices=tuple(WORLDS), default="watch", help="which programs run"
    )
    parser.add_argument(
        "--days", type=float, default=0.0, help="length of the time with faults; 0 = by the seed"
    )
    parser.add_argument(
        "--without", default="", help="comma-separated actors and faults that are left out"
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="how long seeds are tried")
    parser.add_argument(
        "--seeds", type=int, help="how many seeds are tried; default: as many as fit"
    )
    parser.add_argument("--first", type=int, help="the first seed; default: a fresh one")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--failures", type=int, default=3, help="end after so many broken laws")
    parser.add_argument("--no-shrink", dest="shrink", action="store_false")
    arguments = parser.parse_args()
    absent = [name.strip() for name in arguments.without.split(",") if name.strip()]
    actors, faults = WORLDS[arguments.world]
    unknown = set(absent) - {*actors, *faults}
    if unknown:
        parser.error(
            f"unknown: {', '.join(sorted(unknown))}; there are {', '.join((*actors, *faults))}"
        )
    if arguments.seed is None:
        return many(arguments, absent)
    scenario = scenario_of(arguments.seed, arguments.world, days=arguments.days)
    return alone(without(scenario, absent), shrinks=arguments.shrink)


if __name__ == "__main__":
    sys.exit(main())
