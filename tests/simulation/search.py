"""Search over many seeds on all cores, shrinking of failing scenarios, and traces as text."""

import gc
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from functools import partial
from itertools import count

from tests.simulation.git.watch_world import GitWorld
from tests.simulation.kube.operator_world import OperatorWorld
from tests.simulation.scenario import Scenario, scenario_of
from tests.simulation.world import World, WorldResult

STORY_LINES = 60
"""Number of last lines of a trace that are printed."""

SHRINK_SECONDS = 120.0
"""Maximum time of shrinking."""


WORLD_OF: dict[str, type[World]] = {"watch": World, "git": GitWorld, "operator": OperatorWorld}


def simulate(scenario: Scenario, *, traces: bool = True) -> WorldResult:
    """Run a scenario; without a violation there is a trace only if ``traces`` is set."""
    logging.getLogger("reconciler").setLevel(logging.CRITICAL)
    gc.freeze()  # imported modules need no search for cycles after each world
    return WORLD_OF[scenario.world](scenario).run(traces=traces)


outline = partial(simulate, traces=False)


def shrink(
    result: WorldResult,
    *,
    seconds: float = SHRINK_SECONDS,
    run: Callable[[Scenario], WorldResult] = simulate,
) -> WorldResult:
    """Return the smallest scenario found in a given time that violates the same law: fewer actors and faults, shorter."""
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
    """Return the law of a violation, without values."""
    return violation.split(":", maxsplit=1)[0].split(" of [", maxsplit=1)[0]


def story(result: WorldResult, lines: int = STORY_LINES) -> Iterator[str]:
    """Yield the last lines of a trace as text."""
    if len(result.trace) > lines:
        yield f"… {len(result.trace) - lines} lines before"
    for at, actor, sentence in result.trace[-lines:]:
        hours, seconds = divmod(at, 3_600)
        yield f"{int(hours):02d}:{int(seconds // 60):02d}:{seconds % 60:06.3f}  {actor:12}  {sentence}"


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
    """Run seeds on ``workers`` processes until seeds or time are used up, or ``report`` returns false."""
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
    """Return the scenario without the given actors and faults."""
    for name in absent:
        scenario = scenario.without(name)
    return scenario


def from_seed(first: int, number: int | None) -> Iterable[int]:
    """Return consecutive seeds; without end if ``number`` is ``None``."""
    return count(first) if number is None else range(first, first + number)
