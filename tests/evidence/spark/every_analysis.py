"""Every analysis of a lake, on an engine; a main file for all kinds of clusters.

`python -m tests.evidence.spark.every_analysis LAKE STATES OUTPUT [REMOTE]`, or as the main file of spark-submit: it
imports nothing of the tests. STATES is a folder with the state after a change for each cluster that is simulated.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path

from reconciler.codecs.row_values import row_document
from reconciler.evidence.analysis import capacity, impact, recommendation, usage
from reconciler.evidence.analysis.engine import Engine
from reconciler.evidence.analysis.results import ReportWindow, TimeWindow
from reconciler.evidence.spark import engine as spark_engine
from reconciler.evidence.spark.session_settings import SessionSettings
from reconciler.evidence.store.files.table_store import opened
from reconciler.evidence.store.lake import Lake
from reconciler.usage.capacity import CapacityOfCluster

FROM, TO = 1_793_491_200_000, 1_793_577_600_000
FIRST_MS, DAY_MS = 1_699_920_000_000, 86_400_000
CAPACITY = (CapacityOfCluster(cluster_id="c1", ingress=10**3, egress=10**6),)
REPORT = ReportWindow(from_ms=FROM, to_ms=TO, clusters=("c1",), capacity=CAPACITY)


def silent(phase: str, completed: int, total: int) -> None:
    """Report no progress."""


def simulated(engine: Engine, lake: Lake, states: Path) -> object:
    """Simulate the changes to the states in a folder."""
    work = impact.SimulationRequest(
        candidates=impact.candidates_of([], sorted(states.iterdir())),
        window=TimeWindow(from_ms=FIRST_MS, to_ms=FIRST_MS + 2 * DAY_MS),
    )
    return impact.simulated(engine, lake, work, silent)


def recommended(engine: Engine, lake: Lake, _: Path) -> object:
    """Recommend limits for the cluster of the reports."""
    window = TimeWindow(from_ms=FROM, to_ms=TO)
    work = recommendation.RecommendationRequest(clusters=("c1",), window=window)
    return recommendation.advised(engine, lake, work, silent).report


ANALYSES: dict[str, Callable[[Engine, Lake, Path], object]] = {
    "show": lambda engine, lake, _: usage.profiled(engine, lake, REPORT, silent),
    "capacity": lambda engine, lake, _: capacity.carried(engine, lake, REPORT, silent),
    "recommend": recommended,
    "simulate": simulated,
}


class Clock:
    """The lake's time, the same in every place."""

    def now(self) -> float:
        """Noon of the next day."""
        return TO / 1000 + 43_200


def run_all(engine: Engine, folder: str, states: Path) -> dict[str, object]:
    """The result of each analysis by its name, as JSON values; all rows are stored in the lake."""
    lake = Lake(opened(folder), clock=Clock(), run_id="every")
    results = {name: row_document(run(engine, lake, states)) for name, run in ANALYSES.items()}
    return json.loads(json.dumps(results, default=str).replace(folder, "LAKE"))


def main(words: list[str]) -> None:
    """Run everything on Spark, and write the results."""
    folder, states, output, *remote = words
    with spark_engine.opened(SessionSettings(remote=remote[0] if remote else None)) as engine:
        results = run_all(engine, folder, Path(states))
    Path(output).write_text(json.dumps(results), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
