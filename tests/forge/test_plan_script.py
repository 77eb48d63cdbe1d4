"""The script of the action `plan`: inputs become arguments of `kquota plan`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.listeners import Listener
from tests.cli.projects import project, quota
from tests.cli.test_revisions import git

SCRIPT = Path(__file__).parents[2] / ".github" / "actions" / "plan" / "plan.sh"
FAKE = """#!/usr/bin/env bash
printf '%s\\n' "$@" >"${SAID}"
echo '{}' >"$5"
"""


@pytest.fixture
def words(tmp_path):
    """`words(EVIDENCE="auto")`: the arguments of kquota."""
    (tmp_path / "bin").mkdir()
    fake = tmp_path / "bin" / "kquota"
    fake.write_text(FAKE)
    fake.chmod(0o755)

    def run(**inputs: str) -> list[str]:
        environment = {
            "PATH": f"{fake.parent}:{os.environ['PATH']}",
            "RUNNER_TEMP": str(tmp_path),
            "GITHUB_OUTPUT": str(tmp_path / "output"),
            "SAID": str(tmp_path / "said"),
            "PROJECT": "kquota.yaml",
            **dict.fromkeys(("LABEL", "CLUSTER", "CONFIG_FROM", "OFFLINE", "SNAPSHOT"), ""),
        }
        ran = subprocess.run(
            ["/usr/bin/env", "bash", str(SCRIPT)],
            env=environment | inputs,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        return (tmp_path / "said").read_text().splitlines()

    return run


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ({}, ["--no-evidence"]),
        ({"EVIDENCE": "none"}, ["--no-evidence"]),
        ({"EVIDENCE": "auto", "REQUIRE_EVIDENCE": "false"}, []),
        ({"EVIDENCE": "auto", "REQUIRE_EVIDENCE": "true"}, ["--require-evidence"]),
        (
            {"EVIDENCE": "s3://a b/$(c)", "REQUIRE_EVIDENCE": "true"},
            ["--evidence=s3://a b/$(c)", "--require-evidence"],
        ),
    ],
)
def test_evidence_is_omitted_unless_it_is_requested(words, inputs, expected):
    arguments = words(**inputs)
    assert arguments[:3] == ["plan", "--project", "kquota.yaml"]
    assert arguments[8:] == expected


def test_without_a_project_file_at_the_base_no_address_of_the_head_is_contacted(tmp_path):
    """The script with the real kquota: the head's broker and evidence address are servers of an attacker."""
    repository = tmp_path / "repo"
    repository.mkdir()
    git(repository, "init", "-q", "-b", "main")
    (repository / "README").write_text("x")
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "base")
    base = git(repository, "rev-parse", "HEAD")
    with Listener() as attacker:
        more = f"  expectedClusterId: AAAAAAAAAAAAAAAAAAAAAA\n  telemetry: {{evidenceUri: 'http://{attacker.address}/x'}}\n"
        project(repository, attacker.address, quota("a"), more=more)
        ran = subprocess.run(
            ["/usr/bin/env", "bash", str(SCRIPT)],
            env={
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                "RUNNER_TEMP": str(tmp_path),
                "GITHUB_OUTPUT": str(tmp_path / "output"),
                "PROJECT": "kquota.yaml",
                "CONFIG_FROM": base,
                "EVIDENCE": "auto",
                **dict.fromkeys(("LABEL", "CLUSTER", "OFFLINE", "SNAPSHOT"), ""),
            },
            cwd=repository,
            capture_output=True,
            text=True,
            check=True,
        )
        assert attacker.received == []
    assert "no configuration to trust" in ran.stderr
    (plan,) = tmp_path.glob("kquota-plan.*/plan.json")
    assert [row["cause"] for row in json.loads(plan.read_text())["changes"]] == ["Create"]
