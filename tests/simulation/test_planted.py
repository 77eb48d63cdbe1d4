"""Tests of the search for planted faults: the faulty text is what runs; a fault that no world reaches is counted as missed."""

import subprocess
import sys

from tests.mutants.__main__ import ROOT
from tests.simulation.planted import SEARCHED


def search(what: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            *(sys.executable, "-m", "tests.simulation.planted", what),
            *("--seeds", "1", "--workers", "1"),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_world_finds_sets_that_are_sent_in_the_wrong_order():
    done = search("sets go from the widest level to the closest")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("seed 1 ")
    assert "order: client" in done.stdout or "sent against the order" in done.stdout
    assert "1 faults, 1 found, 0 not" in done.stdout


def test_a_fault_that_no_world_reaches_is_counted_as_missed():
    done = search("a chunk contains one operation too many")
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.startswith("not in 1 ")


def test_the_page_names_missed_faults_as_the_search_does():
    page = (ROOT / "tests/how-we-know.md").read_text(encoding="utf-8")
    (line,) = [line for line in page.splitlines() if line.startswith("Reached and not found yet: ")]
    names = line.removeprefix("Reached and not found yet: ").removesuffix(".").split("; ")
    assert set(names) <= {fault.what for fault in SEARCHED}
