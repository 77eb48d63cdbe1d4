"""The example of the whole pipeline on a recording: its commands, its comparison, its files."""

import re
import runpy
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "examples" / "pipeline.py"


def test_the_recording_becomes_forecasts_recommendations_and_the_text_of_a_pull_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)  # the program changes to its folder, and the next test changes back
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(sys, "argv", ["pipeline", "--keep", str(tmp_path), "--recording", "6"])
    assert runpy.run_path(str(PROGRAM), run_name="pipeline")["main"]() == 0
    output = capsys.readouterr().out
    commands = [line.split()[2:4] for line in output.splitlines() if line.startswith("$ ")]
    assert [
        " ".join(command[:2]) if command[0] == "usage" else command[0] for command in commands
    ] == ["usage ingest", "plan", "usage simulate", "usage recommend"]
    assert all(len(line) <= 100 for line in output.splitlines())
    assert "examples/github/recommendations.yml" in output
    matches = re.findall(r"produce +\d+ kB/s +(\d+) s +(\d+) s +(\d+) s +(\d+) s", output)
    assert len(matches) == 5
    for throttled, truly, worst, really in (map(int, match) for match in matches):
        assert abs(throttled - truly) <= 0.15 * truly
        assert abs(worst - really) <= 0.20 * really
    assert len(re.findall(r"^ +user=p-\w+ +(?:produce|fetch) +change ", output, re.MULTILINE)) == 8
    assert "kind: ClientQuota" in (tmp_path / "proposals" / "recorded.yaml").read_text()
    assert (tmp_path / "plan.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert (tmp_path / "evidence").is_dir()
