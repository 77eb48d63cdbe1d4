"""The five targets of the recorded-use pipeline: the module of each, with a trial size and the full size.

Modules are imported on demand, so that the other targets can be measured without Spark.
"""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from tests.bench.harness import ROUNDS, Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The sizes of a measurement."""

    name: str  # `small` shows that everything works; only `full` is a measurement
    rounds: int  # number of rounds for each candidate
    crossed: tuple[int, ...]  # samples of T8, smallest first
    exact: tuple[str, ...]  # test modules of T11
    seeds: int  # seeds of T12
    # Clusters, groups, step in milliseconds and seeded clients, of T13.
    sized: tuple[int, int, int, int]


FULL = Scale(
    name="full",
    rounds=ROUNDS,
    crossed=(1_000_000, 5_000_000, 25_000_000, 100_000_000),
    exact=("analysis", "spark/test_everywhere.py"),
    seeds=50,
    sized=(3, 12, 60_000, 40),
)
SMALL = Scale(
    name="small",
    rounds=1,
    crossed=(100_000,),
    exact=("analysis/test_rollup.py",),
    seeds=2,
    sized=(1, 2, 300_000, 2),
)
SCALES = {scale.name: scale for scale in (SMALL, FULL)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A row with its circumstances."""

    target: str  # `T1` to `T13`
    row: Row  # the figures
    when: str  # date, load of the machine before and after, rounds, and whether it was a trial


def t5(scale: Scale) -> Iterator[Row]:
    """A preview with evidence, always of the full size, because it takes seconds."""
    from tests.bench import evidence
    from tests.bench.harness import interleaved

    with evidence.workspace() as candidates:
        results = interleaved(candidates, rounds=scale.rounds, warmup=True)
    wall = results["with"]["wall"]
    yield Row(
        work="preview with evidence, one tenant, 14 d at 30 s, 6 brokers, whole process",
        peer="the same without evidence",
        figures=wall,
        peer_figures=results["without"]["wall"],
        unit="s wall",
        bar="<= 1 s",
        verdict=lambda value: value <= 1,
        value=wall.median,
    )


def t8(scale: Scale) -> Iterator[Row]:
    """Other engines."""
    from tests.bench import replay

    return replay.t8(scale.rounds, scale.crossed)


def t11(scale: Scale) -> Iterator[Row]:
    from tests.bench import exactness

    return exactness.rows(scale.exact)


def t12(scale: Scale) -> Iterator[Row]:
    from tests.bench import whatif_model

    return whatif_model.rows(scale.seeds)


def t13(scale: Scale) -> Iterator[Row]:
    """Sizing with known demand."""
    from tests.bench import sizing_fleet, sizing_rows

    clusters, groups, step_ms, seeds = scale.sized
    fleet = replace(sizing_fleet.FLEET, clusters=clusters, groups=groups, step_ms=step_ms)
    return sizing_rows.rows(fleet, seeds)


TARGETS: dict[str, tuple[str, Callable[[Scale], Iterator[Row]]]] = {
    "T5": ("preview with evidence on the core, whole process", t5),
    "T8": ("simulate in four engines at 1, 5, 25 and 100 million samples", t8),
    "T11": ("rows of both engines equal the core's", t11),
    "T12": ("the model against real brokers and the stepped limiter", t12),
    "T13": ("right-sizing on a fleet whose demand is known", t13),
}


def measured(target: str, scale: Scale) -> Iterator[Measured]:
    """The rows of a target with their circumstances."""
    _, rows = TARGETS[target]
    before = os.getloadavg()[0]
    for row in rows(scale):
        after = os.getloadavg()[0]
        count = len(row.figures.samples)
        when = f"{time.strftime('%Y-%m-%d', time.gmtime())}, load {before:.1f} to {after:.1f}, {count} sample{'s' * (count > 1)}"
        trial = "" if scale.name == "full" else ", only a trial"
        notes = f"; {'; '.join(row.notes)}" if row.notes else ""
        yield Measured(target=target, row=replace(row, work=row.work + notes), when=when + trial)
