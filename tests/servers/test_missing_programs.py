"""Without Java, integration tests are listed as not run; in CI they fail."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
ONE_TEST = "tests/servers/test_kafka.py::test_the_two_principals_have_exactly_the_documented_rights"


def run_without_java(tmp_path: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    inherited = {key: value for key, value in os.environ.items() if key not in {"CI", "JAVA_HOME"}}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", ONE_TEST],
        cwd=REPOSITORY,
        env=inherited | {"PATH": str(tmp_path)} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_java_a_visible_list_of_skipped_tests_is_printed(tmp_path: Path) -> None:
    answer = run_without_java(tmp_path)
    assert answer.returncode == 0, answer.stdout
    assert "! NOT RUN !" in answer.stdout
    assert "NOT RUN: 1 tests, because `java` was not found: install a Java" in answer.stdout
    assert f"  {ONE_TEST}\n" in answer.stdout


def test_in_ci_a_missing_java_is_a_failure(tmp_path: Path) -> None:
    answer = run_without_java(tmp_path, CI="true")
    assert answer.returncode == 1, answer.stdout
    assert "CI must run this, but: `java` was not found" in answer.stdout
    assert "skipped" not in answer.stdout


@pytest.mark.integration
def test_a_missing_maven_is_listed(tmp_path: Path) -> None:
    (tmp_path / "java").symlink_to(_which("java"))
    answer = run_without_java(tmp_path, KQUOTA_CACHE=str(tmp_path / "empty"))
    assert answer.returncode == 0, answer.stdout
    assert "NOT RUN: 1 tests, because `mvn` was not found: install Maven" in answer.stdout


def _which(program: str) -> Path:
    folders = os.environ["PATH"].split(os.pathsep)
    program_path = next(path for folder in folders if (path := Path(folder) / program).exists())
    return program_path.resolve()
