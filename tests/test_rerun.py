"""Failed tests run once more only if they are few, and a second failure fails the run."""

import json
from pathlib import Path

from tests.rerun import MOST_TESTS, failed_tests, main

PROGRAM = "def test_passes():\n    pass\n\n\ndef test_fails():\n    assert False\n"


def noted(folder: Path, *nodes: str) -> Path:
    cache = folder / "lastfailed"
    cache.write_text(json.dumps(dict.fromkeys(nodes, True)))
    return cache


def program(folder: Path) -> Path:
    path = folder / "test_program.py"
    path.write_text(PROGRAM)
    return path


def test_failed_tests_are_read_in_order(tmp_path: Path) -> None:
    assert failed_tests(noted(tmp_path, "b", "a")) == ["a", "b"]
    assert failed_tests(tmp_path / "none") == []


def test_a_test_that_passes_alone_is_named_and_does_not_fail_the_run(tmp_path, capfd) -> None:
    node = f"{program(tmp_path)}::test_passes"
    assert main(noted(tmp_path, node)) == 0
    assert f"UNSTABLE, passes alone: {node}" in capfd.readouterr().out


def test_a_test_that_fails_again_fails_the_run(tmp_path, capfd) -> None:
    node = f"{program(tmp_path)}::test_fails"
    assert main(noted(tmp_path, node, f"{program(tmp_path)}::test_passes")) == 1
    assert f"FAILS AGAIN: {node}" in capfd.readouterr().out


def test_many_failures_and_a_failure_without_a_test_fail_at_once(tmp_path, capfd) -> None:
    assert main(noted(tmp_path, *(f"none.py::{number}" for number in range(MOST_TESTS + 1)))) == 1
    assert "run again" in capfd.readouterr().out
    assert main(tmp_path / "none") == 1
