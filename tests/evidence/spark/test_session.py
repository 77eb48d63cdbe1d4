"""Spark sessions: the source of their settings, the message if none can start, and complete cleanup."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from reconciler.errors import ConfigError
from reconciler.evidence.spark import jvm, session
from reconciler.evidence.spark.session_settings import SessionSettings
from tests.evidence.analysis import lakes
from tests.servers.processes import HANG_SECONDS, Child

TREE = Path(__file__).parents[4]


@pytest.mark.parametrize(
    ("master", "cores"),
    [
        ("local", 1),
        ("local[3]", 3),
        ("local[3,2]", 3),
        ("local[*]", os.cpu_count()),
        ("local-cluster[2,1,768]", None),
        ("spark://h:7077", None),
        ("yarn", None),
        ("k8s://https://h", None),
    ],
)
def test_only_masters_of_this_process_are_local(master: str, cores: int | None) -> None:
    assert session.local_cores(master) == cores


def fake_java(folder: Path, version: str, code: int = 0) -> Path:
    home = folder / "jdk"
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(
        f"#!/bin/sh\necho '    java.specification.version = {version}' >&2\nexit {code}\n"
    )
    program.chmod(0o755)
    return home


def test_java_that_is_too_old_missing_or_broken_is_reported_with_the_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "11")))
    with pytest.raises(ConfigError, match=r"needs Java 17, and .*/java is Java 11") as caught:
        jvm.check_java()
    assert "--remote" in caught.value.hint
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "ancient", "1.8")))
    with pytest.raises(ConfigError, match="is Java 8"):
        jvm.check_java()
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "broken", "17", code=3)))
    with pytest.raises(ConfigError, match="cannot be run"):
        jvm.check_java()
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "new", "21")))
    jvm.check_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="there is none on the PATH"):
        jvm.check_java()


@pytest.mark.integration
def test_a_local_session_is_tuned_and_binds_to_loopback(spark: object) -> None:
    conf = spark.conf
    assert conf.get("spark.sql.shuffle.partitions") == "2"
    assert conf.get("spark.driver.host") == "127.0.0.1"
    assert conf.get("spark.sql.session.timeZone") == "UTC"
    process = jvm.current().proc
    words = Path(f"/proc/{process.pid}/cmdline").read_text().split("\0")
    assert "-Xmx1g" in words


@pytest.mark.integration
def test_jobs_use_the_session_of_their_caller_and_keep_it_open(spark: SparkSession) -> None:
    for _ in range(2):
        with session.opened(SessionSettings()) as shared:
            assert shared.sparkContext is spark.sparkContext
        assert spark.range(3).count() == 3


LOST = """
import os, signal, sys
import pyarrow as pa
from reconciler.evidence.spark import engine
from reconciler.evidence.spark import jvm
from reconciler.evidence.spark.session_settings import SessionSettings
from reconciler.evidence.store.files import address

try:
    with engine.opened(SessionSettings(master="local[2]", memory="600m")) as spark:
        os.kill(jvm.current().proc.pid, signal.SIGKILL)
        schema = pa.schema([("number", pa.int64())])
        list(spark.run(address.parsed(sys.argv[1]), [None], schema, lambda *_: None))
except Exception as error:
    print(type(error).__name__, error, error.hint)
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler, "PySpark's handler is left"
"""


@pytest.mark.integration
def test_a_jvm_that_dies_is_reported_with_a_hint(tmp_path: Path) -> None:
    lakes.lake(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", LOST, str(tmp_path)],
        cwd=TREE,
        env={**os.environ, "PYTHONPATH": str(TREE)},
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=True,
    )
    assert done.stdout.startswith("SparkError the JVM of Spark ended while it worked")
    assert "--memory 4g" in done.stdout


SLOW = """
import sys
from reconciler.evidence.spark import jvm, session
from reconciler.evidence.spark.session_settings import SessionSettings
with session.opened(SessionSettings(master="local[2]", memory="600m")) as spark:
    print(jvm.current().proc.pid, flush=True)
    spark.range(10**15).selectExpr("sum(hash(id))").collect()
"""


@pytest.mark.integration
def test_ctrl_c_ends_the_job_and_the_jvm(tmp_path: Path) -> None:
    log = tmp_path / "log"
    child = Child(
        [sys.executable, "-c", SLOW], log=log, pipes=True, environment={"PYTHONPATH": str(TREE)}
    )
    try:
        assert child.process.stdout is not None
        pid = int(child.process.stdout.readline())
        child.signal(signal.SIGINT)
        child.process.wait(timeout=HANG_SECONDS)
    finally:
        child.process.kill()
        child.process.stdout.close()
        child.process.stdin.close()
    assert "KeyboardInterrupt" in log.read_text()
    end = time.monotonic() + 120
    while Path(f"/proc/{pid}").exists() and time.monotonic() < end:
        time.sleep(0.1)
    assert not Path(f"/proc/{pid}").exists()
