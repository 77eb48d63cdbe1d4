"""Many worlds: seeds on all cores, a failing one made smaller, and told as a story."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import count

from tests.simulation.kube.operator_world import OperatorWorld
from tests.simulation.scenario import Scenario, scenario_of
from tests.simulation.world import World, WorldResult

STORY_LINES = 60
"""How many of the last lines of a trace are printed."""

SHRINK_SECONDS = 120.0
"""How long smaller scenarios are looked for."""


WORLD_OF: dict[str, type[World]] = {"watch": World, "operator": OperatorWorld}


def simulate(scenario: Scenario) -> WorldResult:
    """One world."""
    logging.getLogger("reconciler").setLevel(logging.CRITICAL)
    return WORLD_OF[scenario.world](scenario).run()


def outline(scenario: Scenario) -> WorldResult:
    """One world, without the story of one that is as it should be."""
    result = simulate(scenario)
    if not result.violation:
        result.trace.clear()
    return result


def shrink(
    result: WorldResult,
    *,
    seconds: float = SHRINK_SECONDS,
    run: Callable[[Scenario], WorldResult] = simulate,
) -> WorldResult:
    """The smallest world that is found in a time and breaks a law of the same kind: fewer actors and faults, shorter."""
    end = time.monotonic() + seconds
    best, progress = result, True
    while progress:
        progress = False
        for scenario in best.scenario.smaller():
            if time.monotonic() > end:
                return best
            smaller = run(scenario)
            if kind_of(smaller.violation) == kind_of(best.violation):
                best, progress = smaller, True
                break
    return best


def kind_of(violation: str) -> str:
    """The law that a violation is about, without the values."""
    return violation.split(":", maxsplit=1)[0].split(" of [", maxsplit=1)[0]


def story(result: WorldResult, lines: int = STORY_LINES) -> Iterator[str]:
    """What happened, one line each."""
    if len(result.trace) > lines:
        yield f"… {len(result.trace) - lines} lines before"
    for at, actor, sentence in result.trace[-lines:]:
        hours, rest = divmod(at, 3_600)
        yield f"{int(hours):02d}:{int(rest // 60):02d}:{rest % 60:06.3f}  {actor:12}  {sentence}"


def explore(
    seeds: Iterable[int],
    *,
    world: str,
    days: float,
    absent: Iterable[str],
    workers: int,
    seconds: float,
    report: Callable[[WorldResult], bool],
) -> None:
    """Run seeds on some processes until they or the time are used up, or ``report`` answers that it is enough."""
    end = time.monotonic() + seconds
    scenarios = (without(scenario_of(seed, world, days=days), absent) for seed in seeds)
    if workers == 1:
        for scenario in scenarios:
            if time.monotonic() > end or not report(outline(scenario)):
                return
        return
    pending: set[Future[WorldResult]] = set()
    with ProcessPoolExecutor(workers) as pool:
        while True:
            while len(pending) < workers * 2 and time.monotonic() < end:
                scenario = next(scenarios, None)
                if scenario is None:
                    break
                pending.add(pool.submit(outline, scenario))
            if not pending:
                return
            finished, pending = wait(pending, return_when=FIRST_COMPLETED)
            for future in finished:
                if not report(future.result()):
                    pool.shutdown(cancel_futures=True)
                    return


def without(scenario: Scenario, absent: Iterable[str]) -> Scenario:
    """The same without some actors and faults."""
    for name in absent:
        scenario = scenario.without(name)
    return scenario


def from_seed(first: int, number: int | None) -> Iterable[int]:
    """Consecutive seeds."""
    return count(first) if number is None else range(first, first + number)
