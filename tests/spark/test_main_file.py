"""The main file for spark-submit: its result and its errors. The jobs themselves are tested in tests/evidence."""

from pathlib import Path

import pytest

from reconciler.spark.__main__ import main


def test_an_unknown_job_is_refused_with_the_command_that_lists_the_jobs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["shows", "--lake", "lake"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "shows" in captured.err
    assert "hint: see kquota usage --help" in captured.err


def test_a_name_cannot_write_control_sequences_to_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["\x1b[2J", "--lake", "lake"]) == 1
    assert "\x1b" not in capsys.readouterr().err


@pytest.mark.parametrize("place", ["no/out.json", "."])
def test_an_output_that_cannot_be_written_is_refused_before_a_session_starts(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", "--lake", "x", "--output", str(tmp_path / place)]) == 1
    assert "cannot be written" in capsys.readouterr().err


def test_an_output_names_users_and_is_private(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    assert main(["show", "--help", "--output", str(path)]) == 0
    assert path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600


def test_an_output_without_a_file_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "--lake", "x", "--output"]) == 1
    assert capsys.readouterr().err == "error: argument --output: expected one argument\n"


def test_the_help_equals_that_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "--help"]) == 0
    assert "--engine" in capsys.readouterr().out
    assert main(["--help"]) == 0
    assert "show" in capsys.readouterr().out
