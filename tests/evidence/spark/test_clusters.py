"""The same job on two executors by spark-submit, and through a Connect server: row by row what a local session gives."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from reconciler.evidence.spark.jobs import rollup
from reconciler.evidence.spark.runtime.job import silent
from reconciler.evidence.store.lake import Lake
from reconciler.spark import __main__ as main_file
from reconciler.usage.tables import USAGE_5M, USAGE_HIST_D
from tests.evidence.spark import lakes
from tests.servers import spark as servers

pytestmark = pytest.mark.integration

MAIN = Path(main_file.__file__)


def filled(folder: Path) -> Lake:
    lake = lakes.lake(folder)
    for cluster in ("lkc 1/ü", "b"):
        for number in range(2):
            lakes.commit(
                lake, cluster, lakes.day(number), lakes.samples(cluster, lakes.day(number))
            )
    return lake


def assert_like_local(spark: SparkSession, lake: Lake, folder: Path) -> None:
    local = filled(folder)
    rollup.run(spark, local, rollup.RollupSettings(), silent)
    for table in (USAGE_5M, USAGE_HIST_D):
        rows = lakes.rows_of(lake, table)
        assert rows
        assert rows == lakes.rows_of(local, table)


def test_two_executors_give_the_rows_of_a_local_session(
    spark: SparkSession, cluster: servers.StandaloneCluster, wheel: Path, tmp_path: Path
) -> None:
    lake = filled(tmp_path / "lake")
    result = tmp_path / "result.json"
    words = ["rollup", "--lake", str(tmp_path / "lake"), "--output", str(result)]
    done = cluster.submit(MAIN, words, package=wheel)
    assert done.returncode == 0, done.stderr[-3000:]
    assert [table["units"] for table in json.loads(result.read_text())["tables"]] == [4, 4]
    assert_like_local(spark, lake, tmp_path / "local")
    assert cluster.log().count("Launching executor") >= 2


def test_a_connect_server_gives_the_rows_of_a_local_session(
    spark: SparkSession, connect: servers.ConnectServer, tmp_path: Path
) -> None:
    lake = filled(tmp_path / "lake")
    words = ["rollup", "--lake", str(tmp_path / "lake"), "--remote", connect.remote]
    done = through(connect, "-m", "reconciler.spark", *words)
    assert [table["units"] for table in json.loads(done.stdout)["tables"]] == [4, 4]
    assert all(line.startswith("[") for line in done.stderr.splitlines()), done.stderr
    assert_like_local(spark, lake, tmp_path / "local")


def through(connect: servers.ConnectServer, *words: str) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run(
        [sys.executable, *words],
        cwd=servers.TREE,
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=servers.JOB_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:] + connect.log()
    return done


def test_an_error_through_connect_is_one_sentence(
    connect: servers.ConnectServer, tmp_path: Path
) -> None:
    filled(tmp_path)
    victim = next(tmp_path.rglob("*.parquet"))
    victim.write_bytes(b"PAR1" + b"\0" * 200)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "reconciler.spark",
            "rollup",
            "--lake",
            str(tmp_path),
            "--remote",
            connect.remote,
        ],
        cwd=servers.TREE,
        capture_output=True,
        text=True,
        timeout=servers.JOB_SECONDS,
        check=False,
    )
    messages = [line for line in done.stderr.splitlines() if not line.startswith("[")]
    assert (done.returncode, len(messages)) == (1, 2), done.stderr
    assert messages[0].startswith("error: rollup: ")
    assert victim.name in messages[0]


def test_a_server_that_is_not_there_is_named() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "reconciler.spark",
            "rollup",
            "--lake",
            "memory://",
            "--remote",
            "sc://127.0.0.1:9",
        ],
        cwd=servers.TREE,
        capture_output=True,
        text=True,
        timeout=servers.JOB_SECONDS,
        check=False,
    )
    messages = [line for line in done.stderr.splitlines() if not line.startswith("[")]
    assert done.returncode == 1
    assert messages[0].startswith("error: no session at sc://127.0.0.1:9"), done.stderr
    assert messages[1] == "hint: check the address, and that the server runs"
