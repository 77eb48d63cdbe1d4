"""The main file for spark-submit: its result and its errors. The jobs themselves are tested in tests/evidence/spark."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from reconciler.evidence.spark.runtime import session
from reconciler.spark.__main__ import main


class ConnectSession:
    """The part of a Connect session that a run over an empty lake uses."""

    __module__ = "pyspark.sql.connect.session"

    def __init__(self) -> None:
        self.conf = SimpleNamespace(get={session.ANSI: "true"}.get)
        self.is_stopped = False

    def stop(self) -> None:
        """End the session."""
        self.is_stopped = True


def test_a_job_through_a_connect_server_prints_its_result(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sessions: dict[str, ConnectSession] = {}
    monkeypatch.setattr(
        session, "_connected", lambda remote: sessions.setdefault(remote, ConnectSession())
    )
    assert main(["rollup", "--lake", "memory://", "--remote", "sc://spark.example:15002"]) == 0
    (connected,) = sessions.items()
    assert connected[0] == "sc://spark.example:15002"
    assert connected[1].is_stopped
    captured = capsys.readouterr()
    tables = json.loads(captured.out)["tables"]
    assert [(table["table"], table["units"]) for table in tables] == [
        ("usage_5m", 0),
        ("usage_hist_d", 0),
    ]
    assert all(line.startswith("[") for line in captured.err.splitlines()), captured.err


def test_an_unknown_job_is_refused_with_the_command_that_lists_the_jobs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["rollupp", "--lake", "lake"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "rollupp" in captured.err
    assert "hint: see kquota spark --help" in captured.err


def test_a_name_cannot_write_control_sequences_to_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["\x1b[2J", "--lake", "lake"]) == 1
    assert "\x1b" not in capsys.readouterr().err


@pytest.mark.parametrize("place", ["no/out.json", "."])
def test_an_output_that_cannot_be_written_is_refused_before_a_session_starts(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["rollup", "--lake", "x", "--output", str(tmp_path / place)]) == 1
    assert "cannot be written" in capsys.readouterr().err


def test_an_output_names_users_and_is_private(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    assert main(["rollup", "--help", "--output", str(path)]) == 0
    assert path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600


def test_an_output_without_a_file_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rollup", "--lake", "x", "--output"]) == 1
    assert capsys.readouterr().err == "error: argument --output: expected one argument\n"


def test_the_help_equals_that_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rollup", "--help"]) == 0
    assert "--rebuild" in capsys.readouterr().out
    assert main(["--help"]) == 0
    assert "rollup" in capsys.readouterr().out
