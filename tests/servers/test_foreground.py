"""Tests of the command for the demo: its announcement and its end."""

import json
import signal
import subprocess
import sys

import pytest

from tests.servers import foreground, ping
from tests.servers.kafka import GRANTS
from tests.servers.processes import HANG_SECONDS

COMMAND = [sys.executable, "-m", "tests.servers.kafka"]


def start(*arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*COMMAND, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def port_of(line: str) -> int:
    return int(json.loads(line)["bootstrap"].rpartition(":")[2])


def test_an_unknown_version_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        foreground.main(["2.8.0"])
    assert "invalid choice: '2.8.0'" in capsys.readouterr().err


@pytest.mark.integration
def test_the_command_stops_when_stdin_closes() -> None:
    with start("4.3.1", "--acls", "--property", "quota.window.num=2") as process:
        line = process.stdout.readline()
        document = json.loads(line)
        assert document["version"] == "4.3.1"
        assert document["listeners"]["PLAINTEXT"]["bootstrap.servers"] == document["bootstrap"]
        assert ping.visible_grants(port_of(line)) == set(GRANTS)
        process.stdin.close()
        assert process.wait(HANG_SECONDS) == 0
        assert not ping.answers(port_of(line))


@pytest.mark.integration
def test_the_command_stops_on_a_signal() -> None:
    with start("4.3.1") as process:
        line = process.stdout.readline()
        assert ping.answers(port_of(line))
        process.send_signal(signal.SIGINT)
        assert process.wait(HANG_SECONDS) == 0
        assert process.stderr.read() == ""


@pytest.mark.integration
def test_a_broker_that_cannot_start_gives_a_sentence_and_exit_code_1() -> None:
    with start("4.3.1", "--property", "quota.window.num=none") as process:
        assert process.wait(HANG_SECONDS) == 1
        message = process.stderr.read()
    assert "Invalid value none for configuration quota.window.num" in message
    assert "Traceback" not in message
