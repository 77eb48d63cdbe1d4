"""The example that walks the whole pipeline on a recording: its commands, its comparison, its files."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "examples" / "pipeline.py"


@pytest.mark.integration
def test_the_recording_becomes_forecasts_recommendations_and_the_text_of_a_pull_request(tmp_path):
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "--keep", str(tmp_path), "--recording", "6"],
        env=os.environ | {"COLUMNS": "100"},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    commands = [line.split()[2:4] for line in done.stdout.splitlines() if line.startswith("$ ")]
    assert [
        " ".join(command[:2]) if command[0] == "spark" else command[0] for command in commands
    ] == [
        "spark ingest",
        "plan",
        "spark resolve",
        "spark simulate",
        "spark recommend",
    ]
    assert all(len(line) <= 100 for line in done.stdout.splitlines())
    assert "with one start of Spark" in done.stdout
    assert "kquota post recommendations github" in done.stdout
    matches = re.findall(r"produce +\d+ kB/s +(\d+) s +(\d+) s +(\d+) s +(\d+) s", done.stdout)
    assert len(matches) == 5
    for throttled, truly, worst, really in (map(int, match) for match in matches):
        assert abs(throttled - truly) <= 0.15 * truly
        assert abs(worst - really) <= 0.20 * really
    assert (
        len(re.findall(r"^ +user=p-\w+ +(?:produce|fetch) +change ", done.stdout, re.MULTILINE))
        == 8
    )
    assert "kind: ClientQuota" in (tmp_path / "proposals" / "recorded.yaml").read_text()
    assert (tmp_path / "plan.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert (tmp_path / "evidence").is_dir()
