"""Every job through Spark Connect on two executors, some by spark-submit: results equal those of a local session."""

import json
import math
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from reconciler.cli.spark.commands import COMMANDS
from reconciler.codecs.state import state_document
from reconciler.evidence.store.lake import Lake
from reconciler.render.json_values import dump
from reconciler.usage.impact.recorded_limits import RecordedLimits
from reconciler.usage.kernel.throttling import delay_ms
from reconciler.usage.tables import TABLES
from tests.evidence.spark import every_job, lakes, replays, report_lake
from tests.servers import spark as servers
from tests.servers.processes import HANG_SECONDS
from tests.usage import whatif_cases

pytestmark = pytest.mark.integration

WITHOUT_SPARK = {"client", "ingest", "expire"}

READS_OTHERS = {"report"}
"""Combines the results of other jobs."""


def filled(folder: Path) -> Lake:
    """A lake for reports, with five more clusters, whose limits change to the states in a separate folder."""
    lake = report_lake.build_lake(folder / "lake")
    generated = [whatif_cases.case(number) for number in range(20)]
    # Neither JSON nor a comparison of rows supports NaN.
    fleets = [
        case
        for case in generated
        if all(
            math.isfinite(value)
            for state in (case.before, case.after, *(case.recorded or RecordedLimits()).states)
            for _, _, value in state.pairs()
        )
    ][:5]
    replays.fill(lake, fleets, whatif_cases.CADENCE)
    (folder / "states").mkdir()
    for case in fleets:
        text = dump(state_document(case.after, cluster_id=case.cluster_id, taken_at=""))
        (folder / "states" / f"{case.cluster_id}.json").write_text(text, encoding="utf-8")
    return lake


def words_of(folder: Path, jobs: Iterable[str]) -> list[str]:
    """The arguments of the main file for a folder."""
    return [*(str(folder / name) for name in ("lake", "states", "results")), ",".join(jobs)]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A filled folder in which no job runs."""
    folder = tmp_path_factory.mktemp("template")
    _ = filled(folder)
    return folder


def copied(template: Path, folder: Path) -> Lake:
    """The lake of a copy of the filled folder."""
    shutil.copytree(template, folder, dirs_exist_ok=True)
    return lakes.lake(folder / "lake")


@pytest.fixture(scope="module")
def local_run(
    spark: SparkSession, template: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Lake, Any]:
    """The lake after all jobs ran in the local session, and their results."""
    folder = tmp_path_factory.mktemp("here")
    lake = copied(template, folder)
    results = every_job.run_all(spark, str(folder / "lake"), folder / "states")
    del results["workers"]
    return lake, json.loads(json.dumps(results, default=str))


def test_every_job_of_the_table_is_tested() -> None:
    assert set(every_job.JOBS) == set(COMMANDS) - WITHOUT_SPARK - READS_OTHERS


def tables_of(lake: Lake) -> set[str]:
    return {name for name, table in TABLES.items() if lake.manifests(table)}


def assert_same(
    local_run: tuple[Lake, Any], remote_lake: Lake, output: Path, jobs: Iterable[str]
) -> None:
    lake, results = local_run
    table_names = tables_of(remote_lake)
    assert table_names >= {"usage_5m", "usage_hist_d", "impact_row"}
    for name in sorted(table_names):
        assert lakes.rows_of(remote_lake, TABLES[name]) == lakes.rows_of(lake, TABLES[name]), name
    # A report names its lake, which differs here.
    remote_results = json.loads(
        output.read_text(encoding="utf-8").replace(
            remote_lake.store.redacted_address, lake.store.redacted_address
        )
    )
    workers = remote_results.pop("workers")
    assert len(workers) == 2
    assert all(".zip/reconciler/__init__.py" in worker["path"] for worker in workers), workers
    assert {worker["delay"] for worker in workers} == {delay_ms(12345, 7)}
    assert remote_results.keys() == set(jobs)
    for name, result in remote_results.items():
        assert results[name] == result, name


def test_every_job_runs_through_a_connect_server_on_two_executors(
    local_run: tuple[Lake, Any], connect: servers.ConnectServer, template: Path, tmp_path: Path
) -> None:
    lake = copied(template, tmp_path)
    words = words_of(tmp_path, every_job.JOBS)
    done = subprocess.run(
        [sys.executable, "-m", "tests.evidence.spark.every_job", *words, connect.remote],
        cwd=servers.TREE,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:] + connect.log()
    assert_same(local_run, lake, tmp_path / "results", every_job.JOBS)
    assert tables_of(lake) == tables_of(local_run[0])
    assert tables_of(lake) >= {"usage_row", "capacity_row", "recommendation"}


def test_rollup_and_simulation_run_by_spark_submit_on_two_executors(
    local_run: tuple[Lake, Any],
    cluster: servers.StandaloneCluster,
    wheel: Path,
    template: Path,
    tmp_path: Path,
) -> None:
    lake = copied(template, tmp_path)
    jobs = ("rollup", "simulate")
    before = cluster.log().count("Launching executor")
    done = cluster.submit(Path(every_job.__file__), words_of(tmp_path, jobs), package=wheel)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    assert cluster.log().count("Launching executor") >= before + 2
    assert_same(local_run, lake, tmp_path / "results", jobs)
