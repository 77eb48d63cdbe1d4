"""Tests of simulated worlds: a seed gives the same trace, violations are found and shrunk, all laws hold."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hypothesis_profiles import count_examples
from tests.simulation.scenario import FAULTS, WORLDS, Scenario, scenario_of
from tests.simulation.search import shrink, story, without
from tests.simulation.world import World, WorldResult

ROOT = Path(__file__).resolve().parents[2]
SUITE = {"watch": (3, "0.02"), "git": (4, "0.005"), "operator": (3, "0.003")}
"""Number of seeds and days of the worlds of this suite; `make simulate` and `.ci/run` try new seeds."""


def simulate(*words: str, hash_seed: str = "0") -> subprocess.CompletedProcess[str]:
    """Run the program; with another hash seed than 0 it starts itself again."""
    return subprocess.run(
        [sys.executable, "-m", "tests.simulation", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
    )


@pytest.mark.parametrize("world", SUITE)
def test_all_laws_hold_in_the_worlds_of_this_suite(world):
    most, days = SUITE[world]
    seeds = min(most, count_examples(most))
    words = f"--world {world} --first 1 --seeds {seeds} --days {days} --seconds 600 --workers 1"
    done = simulate(*words.split())
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{seeds} worlds" in done.stdout
    assert "0 laws broken" in done.stdout


@pytest.mark.parametrize(
    ("world", "seed", "days"),
    [("watch", "5", "0.005"), ("git", "2", "0.003"), ("operator", "2", "0.002")],
)
def test_a_seed_gives_the_same_trace_in_every_process(world, seed, days):
    first, second = (
        simulate("--world", world, "--seed", seed, "--days", days, hash_seed=hash_seed)
        for hash_seed in "12"
    )
    assert first.returncode == 0, first.stdout
    assert first.stdout == second.stdout


class Superstitious(World):
    """A world with a law that the product violates: no consumer rate may be set."""

    def _on_commit(self, commit):
        if any(record.key == "consumer_byte_rate" for record in commit.records):
            self._break("superstition: a consumer rate was written")
        super()._on_commit(commit)


def test_the_scenario_of_a_broken_law_is_minimised_and_reported():
    def run(scenario: Scenario) -> WorldResult:
        return Superstitious(scenario).run()

    result = run(Scenario(seed=3))
    assert result.violation
    smaller = shrink(result, run=run)
    assert smaller.violation == result.violation
    assert smaller.scenario.faults == ()
    assert len(smaller.scenario.actors) < len(result.scenario.actors)
    assert smaller.scenario.seconds < result.scenario.seconds
    assert smaller.scenario.command.startswith("make simulate SEED=3 DAYS=")
    assert any("BROKEN: superstition" in line for line in story(smaller))


def test_a_scenario_without_one_fault_keeps_the_random_numbers_of_the_others():
    scenario = Scenario(seed=4)
    smaller = scenario.without("kill")
    assert smaller.faults == tuple(fault for fault in FAULTS if fault != "kill")
    assert smaller.chance("network").random() == scenario.chance("network").random()
    assert "WITHOUT='kill'" in smaller.command


@pytest.mark.parametrize("world", WORLDS)
def test_the_command_of_every_smaller_scenario_repeats_exactly_that_scenario(world):
    scenario = scenario_of(7, world)
    assert not any("operators" in smaller.command for smaller in scenario.smaller())
    for smaller in (smallest for each in scenario.smaller() for smallest in each.smaller()):
        words = dict(word.partition("=")[::2] for word in shlex.split(smaller.command)[2:])
        absent = [name for name in words.get("WITHOUT", "").split(",") if name]
        again = scenario_of(
            int(words["SEED"]), words.get("WORLD", "watch"), days=float(words.get("DAYS", "0"))
        )
        assert without(again, absent) == smaller


def test_an_unknown_fault_is_an_error():
    done = simulate("--seed", "1", "--without", "rain")
    assert done.returncode == 2
    assert "unknown: rain" in done.stderr
