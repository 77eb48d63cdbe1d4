"""The script of the action `plan`: which inputs become which words of `kquota plan`."""

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / ".github" / "actions" / "plan" / "plan.sh"
FAKE = """#!/usr/bin/env bash
printf '%s\\n' "$@" >"${SAID}"
echo '{}' >"$5"
"""


@pytest.fixture
def words(tmp_path):
    """`words(EVIDENCE="auto")`: what kquota was called with."""
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
            **dict.fromkeys(("LABEL", "CLUSTER", "CONFIG_FROM", "SINCE", "OFFLINE", "SNAPSHOT"), ""),
        }  # fmt: skip
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
def test_evidence_is_left_out_unless_it_is_asked_for(words, inputs, expected):
    said = words(**inputs)
    assert said[:3] == ["plan", "--project", "kquota.yaml"]
    assert said[6:] == expected
