"""The eleven targets of the recorded-use pipeline: the module of each, with a trial size and the full size.

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
    scaling_rows: int  # samples of T10
    replayed: int  # samples of T2
    # Samples of T6; None = a billion, or the number that fits half of the free disk.
    largest: int | None
    heaped: int  # samples of T7, which also measures five times as many
    crossed: tuple[int, ...]  # samples of T8, smallest first
    brokers: int  # brokers of T9
    groups: int  # groups of T9
    step_ms: int  # scrape step of T9
    exact: tuple[str, ...]  # test modules of T11
    seeds: int  # seeds of T12
    # Clusters, groups, step in milliseconds and seeded clients, of T13.
    sized: tuple[int, int, int, int]


FULL = Scale(
    name="full",
    rounds=ROUNDS,
    scaling_rows=8_000_000,
    replayed=5_760_000,
    largest=None,
    heaped=20_000_000,
    crossed=(1_000_000, 5_000_000, 25_000_000, 100_000_000),
    brokers=6,
    groups=32,
    step_ms=30_000,
    exact=("usage/test_simulation.py", "usage/test_recommendation.py", "usage/test_rollup.py"),
    seeds=50,
    sized=(3, 12, 60_000, 40),
)
SMALL = Scale(
    name="small",
    rounds=1,
    scaling_rows=200_000,
    replayed=100_000,
    largest=200_000,
    heaped=50_000,
    crossed=(100_000,),
    brokers=2,
    groups=4,
    step_ms=300_000,
    exact=("usage/test_rollup.py",),
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


def t1(scale: Scale) -> Iterator[Row]:
    from tests.bench import spark_start

    return spark_start.start_rows(scale.rounds)


def t2(scale: Scale) -> Iterator[Row]:
    """Runs of samples through the shuffle against samples."""
    from tests.bench import replay

    return replay.t2(scale.rounds, scale.replayed)


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


def t6(scale: Scale) -> Iterator[Row]:
    """The largest number of samples."""
    from tests.bench import replay

    return replay.t6(scale.largest)


def t7(scale: Scale) -> Iterator[Row]:
    """Five times as many samples."""
    from tests.bench import replay

    return replay.t7(scale.rounds, scale.heaped)


def t8(scale: Scale) -> Iterator[Row]:
    """Other engines."""
    from tests.bench import replay

    return replay.t8(scale.rounds, scale.crossed)


def t9(scale: Scale) -> Iterator[Row]:
    from tests.bench import spark_rollup

    return spark_rollup.rows(
        scale.rounds, brokers=scale.brokers, groups=scale.groups, step_ms=scale.step_ms
    )


def t10(scale: Scale) -> Iterator[Row]:
    """Two cores against one."""
    from tests.bench import spark_start

    return spark_start.scaling_rows(scale.rounds, scale.scaling_rows)


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
    "T1": ("a session starts, tuned, against PySpark's defaults", t1),
    "T2": ("simulate with runs of samples in the shuffle, against single samples", t2),
    "T5": ("preview with evidence on the core, whole process", t5),
    "T6": ("simulate a billion samples with a heap of 4 GB", t6),
    "T7": ("five times the samples: time and smallest heap", t7),
    "T8": ("simulate in four engines at 1, 5, 25 and 100 million samples", t8),
    "T9": ("roll up one new day of thirty, at 30 million samples", t9),
    "T10": ("two cores against one, two executors against one", t10),
    "T11": ("rows of Spark equal the core's", t11),
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
