"""T12: the throttle model against real brokers (recorded runs) and against Kafka's limiter, stepped request by request.

No time is measured: the recorded runs are in tests/recording, the grid is generated from seeds.
"""

import itertools
from collections.abc import Iterator

from reconciler.usage.kernel.throttling import simulate
from reconciler.usage.samples import QuotaType
from tests.bench.harness import Figures, Row, say
from tests.recording import compare, fixture
from tests.usage import test_stepper as grid
from tests.usage.stepper import limited

FIRST_SEED = 9001
"""Seeds that no test and no choice of a constant uses."""

VOLATILITIES, FACTORS = (0.3, 0.9), (0.8, 1.1, 1.5, 2.2)
SHARE_OF_GROUPS = 10 / 12
"""The share of recorded groups that must be within a bound."""

TOTAL_BOUND, SHARE_WITHIN = 0.05, 0.9


def broker_rows() -> Iterator[Row]:
    """Groups of recorded runs with a forecast within the bounds: known ones, and ones recorded after the model was finished."""
    rows = [row for number in fixture.numbers() for row in compare.rows(fixture.read(number))]
    for name, is_unseen in (("known", False), ("unseen", True)):
        groups = [row for row in rows if (row.run >= compare.FIRST_UNSEEN) is is_unseen]
        for what, is_met in (
            ("throttled time within 15 %", lambda row: row.time_is_within),
            ("worst delay within 20 %", lambda row: row.delay_is_within),
            (
                "shown figure or interval holds the truth within these bounds",
                lambda row: row.contains(row.stated, within=True),
            ),
        ):
            share = sum(map(is_met, groups)) / len(groups)
            yield Row(
                work=f"{len(groups)} {name} groups on real brokers: {what}",
                peer="",
                peer_figures=None,
                figures=Figures(samples=(share,)),
                unit="of the groups",
                bar=f">= {SHARE_OF_GROUPS:.3g}",
                verdict=lambda value: value >= SHARE_OF_GROUPS,
                value=share,
            )


def grid_rows(seeds: int) -> Iterator[Row]:
    """The synthetic grid: the total of the worst step decides, and the cases of all steps; ranges are over steps."""
    cells = list(itertools.product(range(FIRST_SEED, FIRST_SEED + seeds), VOLATILITIES, FACTORS))
    say(f"{len(cells):,} settings, stepped request by request")
    true = {
        cell: limited(grid.ready_at(*cell[:2]), grid.MEAN * cell[2], grid.SECONDS * 1000).late_ms
        for cell in cells
    }
    total = sum(true.values())
    off, within = [], []
    for step_s in grid.STEPS:
        forecasts = {cell: throttled(cell, step_s) for cell in cells}
        off.append((sum(forecasts.values()) - total) / total)
        within.append(
            sum(not grid.beyond(forecasts[cell], true[cell]) for cell in cells) / len(cells)
        )
        say(f"  {step_s} s: total {off[-1]:+.3f}, within {within[-1]:.3f}")
    work = f"{len(cells):,} settings of {seeds} unseen seeds at {', '.join(map(str, grid.STEPS))} s"
    yield Row(
        work=f"{work}: total throttled time, the worst step",
        peer="",
        peer_figures=None,
        figures=Figures(samples=tuple(map(abs, off))),
        unit="of the stepper's too much or too little",
        bar=f"<= {TOTAL_BOUND:g}",
        verdict=lambda value: value <= TOTAL_BOUND,
        value=max(map(abs, off)),
    )
    yield Row(
        work=f"{work}: within max(10 %, 60 s) of the stepper",
        peer="",
        peer_figures=None,
        figures=Figures(samples=tuple(within)),
        unit="of the cases",
        bar=f">= {SHARE_WITHIN:g}",
        verdict=lambda value: value >= SHARE_WITHIN,
        value=sum(within) / len(within),
    )


def throttled(cell: tuple[int, float, float], step_s: int) -> int:
    """The model's forecast from the scraped gauge."""
    seed, volatility, factor = cell
    series = grid.recorded(grid.ready_at(seed, volatility), step_s)
    return simulate(QuotaType.PRODUCE, series, int(grid.MEAN * factor)).throttled_ms


def rows(seeds: int) -> Iterator[Row]:
    """All rows of T12."""
    yield from broker_rows()
    yield from grid_rows(seeds)
