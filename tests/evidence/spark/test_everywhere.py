"""Every job on two executors by spark-submit, and through Spark Connect: what it tells and keeps is what it does here."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from reconciler.evidence.spark import jobs
from reconciler.evidence.store.lake import Lake
from reconciler.usage.tables import TABLES
from tests.evidence.spark import every_job, lakes, report_lake
from tests.servers import spark as servers

pytestmark = pytest.mark.integration

NEEDS_FILES = {"plan", "simulate"}
"""Jobs over manifests and plans: files beside the lake."""
READS_OTHERS = {"report"}
"""Puts together what other jobs made."""


@pytest.fixture(scope="module")
def here(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Lake, Any]:
    """The lake after all jobs ran in the local session, and what they told."""
    folder = tmp_path_factory.mktemp("here")
    lake = report_lake.made(folder)
    found = every_job.told(spark, str(folder))
    return lake, json.loads(json.dumps(found, default=str))


def test_no_job_of_the_table_is_left_out() -> None:
    assert set(every_job.COMMANDS) == set(jobs.SUMMARIES) - NEEDS_FILES - READS_OTHERS


def assert_same(here: tuple[Lake, Any], there: Lake, output: Path) -> None:
    lake, told = here
    kept = {name for name, table in TABLES.items() if lake.manifests(table)}
    assert kept == {name for name, table in TABLES.items() if there.manifests(table)}
    assert {"usage_5m", "usage_hist_d", "usage_row", "capacity_row", "effective_quota"} <= kept
    for name in sorted(kept):
        assert lakes.rows_of(there, TABLES[name]) == lakes.rows_of(lake, TABLES[name]), name
    # A report says which lake it is of, and that is another one.
    found = json.loads(
        output.read_text(encoding="utf-8").replace(
            there.store.redacted_address, lake.store.redacted_address
        )
    )
    for name, result in told.items():
        assert found[name] == result, name


def test_through_a_connect_server(
    here: tuple[Lake, Any], connect: servers.ConnectServer, tmp_path: Path
) -> None:
    lake = report_lake.made(tmp_path / "lake")
    words = [
        "-m",
        "tests.evidence.spark.every_job",
        str(tmp_path / "lake"),
        str(tmp_path / "told"),
        connect.remote,
    ]
    done = subprocess.run(
        [sys.executable, *words],
        cwd=servers.TREE,
        capture_output=True,
        text=True,
        timeout=servers.JOB_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:] + connect.log()
    assert_same(here, lake, tmp_path / "told")


def test_on_two_executors(
    here: tuple[Lake, Any], cluster: servers.StandaloneCluster, wheel: Path, tmp_path: Path
) -> None:
    lake = report_lake.made(tmp_path / "lake")
    words = [str(tmp_path / "lake"), str(tmp_path / "told")]
    done = cluster.submit(Path(every_job.__file__), words, package=wheel)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    assert_same(here, lake, tmp_path / "told")
