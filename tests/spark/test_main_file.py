"""The main file for spark-submit: what is wrong on its command line is said with what to do, before a JVM starts."""

import pytest

from reconciler.spark.__main__ import main


def test_an_unknown_job_is_refused_with_the_command_that_lists_the_jobs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["rollupp", "--lake", "lake"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "rollupp" in captured.err
    assert captured.err.endswith("hint: python -m reconciler.spark --help\n")


def test_a_name_cannot_write_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["\x1b[2J", "--lake", "lake"]) == 1
    assert "\x1b" not in capsys.readouterr().err
