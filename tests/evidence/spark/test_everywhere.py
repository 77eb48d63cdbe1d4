"""One function, two runners: every analysis gives the same rows in local processes, on Spark, through Connect and spark-submit."""

import json
import math
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from reconciler.codecs.state import state_document
from reconciler.errors import SparkError
from reconciler.evidence.analysis import engine as engines
from reconciler.evidence.analysis import impact
from reconciler.evidence.analysis.engine import LocalEngine
from reconciler.evidence.analysis.impact import CandidateLimits
from reconciler.evidence.analysis.results import TimeWindow
from reconciler.evidence.spark.engine import SparkEngine
from reconciler.evidence.store.lake import Lake
from reconciler.render.json_values import dump
from reconciler.usage.impact.recorded_limits import RecordedLimits
from reconciler.usage.samples import DAY_MS
from reconciler.usage.tables import TABLES
from tests.evidence.analysis import lakes, replays, report_lake
from tests.evidence.spark import every_analysis
from tests.fakes.progress import silent
from tests.servers import spark as servers
from tests.servers.processes import HANG_SECONDS
from tests.usage import whatif_cases

pytestmark = pytest.mark.integration

RESULTS = ("impact_row", "recommendation", "capacity_row", "usage_row", "noisy_row")


def filled(folder: Path, *, first: int = 0, fleets: int = 5) -> None:
    """A lake for reports, with random clusters, whose limits change to the states in a separate folder."""
    lake = report_lake.build_lake(folder / "lake")
    generated = (whatif_cases.case(number) for number in range(first, first + 4 * fleets))
    # Neither JSON nor a comparison of rows supports NaN.
    finite = [
        case
        for case in generated
        if all(
            math.isfinite(value)
            for state in (case.before, case.after, *(case.recorded or RecordedLimits()).states)
            for _, _, value in state.pairs()
        )
    ][:fleets]
    replays.fill(lake, finite, whatif_cases.CADENCE)
    (folder / "states").mkdir()
    for case in finite:
        text = dump(state_document(case.after, cluster_id=case.cluster_id, taken_at=""))
        (folder / "states" / f"{case.cluster_id}.json").write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A filled folder in which nothing runs."""
    folder = tmp_path_factory.mktemp("template")
    filled(folder)
    return folder


def copied(template: Path, folder: Path) -> Path:
    shutil.copytree(template, folder, dirs_exist_ok=True)
    return folder


def ran(engine: engines.Engine, folder: Path) -> tuple[Lake, Any]:
    lake = str(folder / "lake")
    results = every_analysis.run_all(engine, lake, folder / "states")
    return lakes.lake(folder / "lake"), results


@pytest.fixture(scope="module")
def local_run(template: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Lake, Any]:
    """The lake after all analyses ran here, and their results."""
    return ran(LocalEngine(), copied(template, tmp_path_factory.mktemp("here")))


def assert_same(left_tables: tuple[Lake, Any], right_tables: tuple[Lake, Any]) -> None:
    for name in RESULTS:
        rows = lakes.rows_of(left_tables[0], TABLES[name])
        assert rows, name
        assert lakes.rows_of(right_tables[0], TABLES[name]) == rows, name
    assert right_tables[1] == left_tables[1]


def test_the_two_engines_give_the_same_rows_of_random_tables(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In tasks of a few hundred rows, so that every analysis has many."""
    monkeypatch.setattr(engines, "TASK_ROWS", 300)
    for seed in range(0, 60, 20):
        template = tmp_path / f"{seed}"
        filled(template, first=seed)
        local_results = ran(LocalEngine(), copied(template, tmp_path / f"{seed}-local"))
        spark_results = ran(SparkEngine(spark), copied(template, tmp_path / f"{seed}-spark"))
        assert_same(local_results, spark_results)


def test_several_processes_give_the_rows_of_one(
    local_run: tuple[Lake, Any], template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "TASK_ROWS", 1_000)
    monkeypatch.setattr(engines, "ALONE_S", 0.0)
    assert_same(local_run, ran(LocalEngine(2), copied(template, tmp_path)))


def test_an_error_in_a_worker_is_one_sentence(spark: SparkSession, tmp_path: Path) -> None:
    fleet, _, pacing = replays.beyond_64_bits()
    lake = replays.filled(tmp_path, [fleet], pacing)
    begin = whatif_cases.START_MS // DAY_MS * DAY_MS
    work = impact.SimulationRequest(
        candidates=(CandidateLimits(cluster_id=fleet.cluster_id, state=fleet.after),),
        window=TimeWindow(from_ms=begin, to_ms=begin + 13 * DAY_MS),
    )
    with pytest.raises(SparkError, match="no broker moves so much") as raised:
        impact.simulated(SparkEngine(spark), lake, work, silent)
    assert "\n" not in str(raised.value)


def of_output(folder: Path) -> tuple[Lake, Any]:
    results = json.loads((folder / "results").read_text(encoding="utf-8"))
    return lakes.lake(folder / "lake"), results


def words_of(folder: Path) -> list[str]:
    """The arguments of the main file for a folder."""
    return [str(folder / name) for name in ("lake", "states", "results")]


def test_everything_runs_through_a_connect_server_on_two_executors(
    local_run: tuple[Lake, Any], connect: servers.ConnectServer, template: Path, tmp_path: Path
) -> None:
    folder = copied(template, tmp_path)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.evidence.spark.every_analysis",
            *words_of(folder),
            connect.remote,
        ],
        cwd=servers.TREE,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:] + connect.log()
    assert_same(local_run, of_output(folder))


def test_everything_runs_by_spark_submit_on_two_executors(
    local_run: tuple[Lake, Any],
    cluster: servers.StandaloneCluster,
    wheel: Path,
    template: Path,
    tmp_path: Path,
) -> None:
    folder = copied(template, tmp_path)
    before = cluster.log().count("Launching executor")
    done = cluster.submit(Path(every_analysis.__file__), words_of(folder), package=wheel)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    assert cluster.log().count("Launching executor") >= before + 2
    assert_same(local_run, of_output(folder))
