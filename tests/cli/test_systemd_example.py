"""The systemd unit of the examples: validated by systemd, and its command line works."""

import configparser
import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.projects import quota
from tests.cli.watch_process import Watch, Watched, until

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "examples" / "systemd" / "kquota-watch.service"
PROGRAM = "/opt/kquota/bin/kquota"


class _Repeating(dict):
    """The last value of a repeated setting; the earlier ones are irrelevant here."""


def settings(section: str) -> dict[str, str]:
    parsed = configparser.ConfigParser(strict=False, interpolation=None, dict_type=_Repeating)
    parsed.optionxform = str
    parsed.read(UNIT)
    return dict(parsed[section])


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed here")
def test_systemd_analyze_verify_accepts_the_unit(tmp_path: Path):
    path = tmp_path / UNIT.name
    path.write_text(UNIT.read_text().replace(PROGRAM, sys.executable))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(path)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"SYSTEMD_LOG_LEVEL": "warning"},
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed here")
def test_systemd_analyze_security_rates_the_unit_as_restricted(tmp_path: Path):
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=20", str(UNIT)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_unit_reloads_by_sighup_and_leaves_time_for_the_shutdown():
    service = settings("Service")
    assert service["ExecStart"].split()[0] == PROGRAM
    assert service["ExecReload"] == "/bin/kill -HUP $MAINPID"
    assert float(service["TimeoutStopSec"]) > 2 * 25, "longer than all tasks get to end"
    assert service["StateDirectory"] == "kquota"
    assert service["Restart"] == "on-failure"
    assert service["DynamicUser"] == "yes"


def test_the_command_line_of_the_unit_serves_reloads_and_exits_0(folder: Path, sandbox):
    """As systemd would run it: the environment has the repository and the state folder."""
    watched = Watched(folder, sandbox.bootstrap)
    watched.commit(quota("alice"))
    watched.settings = watched.settings.replace(sandbox.bootstrap, "evil.example.org:9092")
    credentials = folder / "credentials"
    credentials.mkdir()
    trusted = (watched.top / "kquota.yaml").read_text() + "  propertiesFile: client.properties\n"
    (credentials / "kquota.yaml").write_text(trusted)
    (credentials / "client.properties").write_text("client.id=kquota-watch\n")
    watch = Watch(
        folder,
        KQUOTA_REPOSITORY=str(watched.top),
        STATE_DIRECTORY=str(folder / "state"),
        JOURNAL_STREAM="8:12345",
    )
    line = settings("Service")["ExecStart"].replace("127.0.0.1:9180", "127.0.0.1:0")
    line = line.replace("${CREDENTIALS_DIRECTORY}", str(credentials))
    watch.words = [sys.executable, "-m", "reconciler", *shlex.split(line)[1:]]
    with watch:
        watch.wait_for_log("<6>prod: 1 applied")
        watched.commit(quota("alice"), quota("bob"))  # and a project file that is not trusted
        watch.send(signal.SIGHUP)
        until(lambda: len(sandbox.values()) == 2, lambda: watch.log)
        assert watch.get("/healthz") == (200, "ok\n")
        assert watch.end() == 0
