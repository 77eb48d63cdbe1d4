"""The main file of the package: by spark-submit, and with the address of a Connect server that fails or is absent."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.errors import SparkError
from reconciler.evidence.spark import session
from reconciler.evidence.spark.session_settings import SessionSettings
from reconciler.spark import __main__ as main_file
from tests.evidence.analysis import lakes
from tests.servers import spark as servers
from tests.servers.processes import HANG_SECONDS

pytestmark = pytest.mark.integration


WINDOW = ("--cluster-id", "b", "--from", str(lakes.day(0)), "--to", str(lakes.day(1)))


def filled(folder: Path) -> Path:
    lake = lakes.lake(folder)
    lakes.commit(lake, "b", lakes.day(0), lakes.samples("b", lakes.day(0)))
    return folder


def test_spark_submit_runs_the_main_file(wheel: Path, tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    lake = str(filled(tmp_path / "lake"))
    words = ["show", "--engine", "spark", "--lake", lake, *WINDOW, "--output", str(result)]
    done = servers.submit(
        ["--master", "local[2]", "--driver-java-options", servers.QUICK],
        Path(main_file.__file__),
        words,
        package=wheel,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(result.read_text())["usage"]


def test_an_error_through_spark_connect_is_one_sentence(
    connect: servers.ConnectServer, tmp_path: Path
) -> None:
    filled(tmp_path)
    victim = next(tmp_path.glob("usage_5m/**/*.parquet"))
    content = victim.read_bytes()
    rows = len(content) - int.from_bytes(content[-8:-4], "little") - 12
    victim.write_bytes(content[:4] + b"\xff" * rows + content[4 + rows :])
    words = ["show", "--lake", str(tmp_path), *WINDOW, "--remote", connect.remote]
    done = subprocess.run(
        [sys.executable, "-m", "reconciler.spark", *words],
        cwd=servers.TREE,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    messages = [line for line in done.stderr.splitlines() if not line.startswith("[")]
    assert (done.returncode, len(messages)) == (1, 2), done.stderr
    assert messages[0].startswith("error: Spark: ")
    assert victim.name in messages[0]


def test_an_unreachable_server_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "ANSWER_SECONDS", 0.5)
    with pytest.raises(SparkError, match=r"no session at sc://127\.0\.0\.1:9: no answer") as caught:
        session.started(SessionSettings(remote="sc://127.0.0.1:9"))
    assert caught.value.hint == "check the address, and that the server runs"
