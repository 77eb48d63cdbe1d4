"""Tests of simulated operators: all laws hold, and a seed gives the same trace in every process."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def simulate(*words: str, hash_seed: str = "random") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.simulation", "--world", "operator", *words]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment
    )


def test_all_laws_hold_in_the_worlds_of_this_suite() -> None:
    done = simulate(
        "--first", "1", "--seeds", "3", "--days", "0.003", "--seconds", "600", "--workers", "1"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 worlds" in done.stdout


def test_a_seed_gives_the_same_trace_in_every_process() -> None:
    first, second = (simulate("--seed", "2", "--days", "0.002", hash_seed=seed) for seed in "12")
    assert first.returncode == 0, first.stdout
    assert first.stdout == second.stdout
