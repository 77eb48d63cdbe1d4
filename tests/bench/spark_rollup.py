"""T9: the rollup of one new day of thirty against the rollup of all thirty: rows read, time, and equal results.

``python -m tests.bench --only T9``. The lake is that of the synthetic fleet; rollups of its samples are removed
before each sample, all of it or only that of the last day.
"""

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from reconciler.base.clock import SystemClock
from reconciler.evidence.spark.jobs import rollup
from reconciler.evidence.spark.runtime import session
from reconciler.evidence.spark.runtime.session_settings import SessionSettings
from reconciler.evidence.store.files import object_store
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.manifest import Unit
from reconciler.usage.tables import USAGE_5M, USAGE_HIST_D, USAGE_SAMPLE
from tests.bench.harness import Figures, Row, interleaved, say
from tests.evidence.spark.plans import rows_read
from tests.fakes.progress import silent
from tests.fleet.lake_writer import write
from tests.fleet.spec import Fleet
from tests.servers.processes import ScratchFolder

DAYS = 30
MADE = (USAGE_5M, USAGE_HIST_D)
READ_BAR, TIME_BAR = 2 / DAYS, 0.1


class Rolled:
    """A lake of thirty days on disk, and a session that computes its rollups."""

    def __init__(self, spark: SparkSession, folder: Path, fleet: Fleet) -> None:
        self.spark, self.folder, self.fleet = spark, folder, fleet
        self.lake = Lake(object_store.opened(str(folder)), clock=SystemClock())
        self.answers: dict[str, list[pa.Table]] = {}

    def last(self) -> list[Unit]:
        """The rollups of the last day."""
        day = self.fleet.day(self.fleet.days - 1)
        return [Unit(table=table, cluster_id=self.fleet.cluster_id(0), day=day) for table in MADE]

    def without(self, *, all_days: bool) -> None:
        """Remove rollups: of all days, or of the last one."""
        paths = [table.name for table in MADE]
        if not all_days:
            paths = [path for unit in self.last() for path in (unit.manifests, unit.folder)]
        for path in paths:
            shutil.rmtree(self.folder / path, ignore_errors=True)

    def sample(self, *, all_days: bool) -> Callable[[], Mapping[str, float]]:
        """One run of the job: seconds, rows that Spark read, units that it wrote."""

        def run() -> Mapping[str, float]:
            self.without(all_days=all_days)
            with rows_read(self.spark) as count:
                start = time.perf_counter()
                done = rollup.run(self.spark, self.lake, rollup.RollupSettings(), silent)
                seconds = time.perf_counter() - start
                read = count()
            units = [table.units for table in done.tables]
            if units != [self.fleet.days if all_days else 1] * len(MADE):
                raise SystemExit(f"the rollup made {units} units")
            self.answers["rebuild" if all_days else "day"] = self.rows()
            return {"seconds": seconds, "read": float(read)}

        return run

    def rows(self) -> list[pa.Table]:
        """All current rollups, in the order of their key."""
        return [
            self.lake.read(self.lake.manifests(table), table=table).sort_by(
                [(name, "ascending") for name in table.key]
            )
            for table in MADE
        ]


def rows(rounds: int, *, brokers: int, groups: int, step_ms: int) -> Iterator[Row]:
    """Rows read, time, and cells that differ."""
    fleet = Fleet(clusters=1, brokers=brokers, groups=groups, days=DAYS, step_ms=step_ms)
    with (
        ScratchFolder.make("bench-rollup-") as folder,
        session.opened(SessionSettings(master="local[2]", memory="2g")) as spark,
    ):
        say(f"making {DAYS} days of {brokers} brokers and {groups} groups")
        written = write(fleet, folder / "lake").rows[USAGE_SAMPLE.name]
        say(f"  {written:,} samples")
        rolled = Rolled(spark, folder / "lake", fleet)
        results = interleaved(
            {"rebuild": rolled.sample(all_days=True), "day": rolled.sample(all_days=False)},
            rounds=rounds,
            warmup=True,
        )
        yield from judged(results, rolled.answers, written)


def judged(
    results: Mapping[str, Mapping], answers: Mapping[str, list[pa.Table]], written: int
) -> Iterator[Row]:
    """The three rows of T9."""
    day, rebuild = results["day"], results["rebuild"]
    work = f"one new day of {DAYS}, {written:,} samples"
    for figure, unit, bar in (("read", "rows", READ_BAR), ("seconds", "s wall, warm", TIME_BAR)):
        figures, peer_figures = day[figure], rebuild[figure]
        yield Row(
            work=f"{work}: {'rows read' if figure == 'read' else 'time'}",
            peer="a rebuild of all days",
            figures=figures,
            peer_figures=peer_figures,
            unit=unit,
            bar=f"<= {bar:.3g}x",
            verdict=lambda value, bar=bar: value <= bar,
            value=figures.median / peer_figures.median,
        )
    differ = sum(
        not day_table.equals(rebuild_table)
        for day_table, rebuild_table in zip(answers["day"], answers["rebuild"], strict=True)
    )
    cells = sum(day_table.num_rows for day_table in answers["day"])
    yield Row(
        work=f"{work}: tables that differ from the rebuild, of {len(MADE)} with {cells:,} rows",
        peer="",
        peer_figures=None,
        figures=Figures(samples=(float(differ),)),
        unit="tables",
        bar="= 0",
        verdict=lambda value: value == 0,
        value=differ,
    )
