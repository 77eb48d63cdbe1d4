"""T11: the tests that compare every row of both engines with the core's, as one figure: the number of failures."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

from tests.bench.harness import Figures, Row, say
from tests.servers.processes import ScratchFolder

TREE = Path(__file__).parents[2]
SECONDS = 5_400


def rows(files: Sequence[str]) -> Iterator[Row]:
    """One row; a test that did not run counts as a failure."""
    say(f"tests of {', '.join(files)}")
    with ScratchFolder.make("bench-exact-") as folder:
        report = folder / "report.xml"
        _ = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-m",
                "integration or not integration",
                f"--junitxml={report}",
                *(f"tests/evidence/{file}" for file in files),
            ],
            cwd=TREE,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )
        ran, bad = counted(report.read_text(encoding="utf-8"))
    yield Row(
        work=f"rows of {', '.join(files)} equal the core's: {ran} tests",
        peer="",
        peer_figures=None,
        figures=Figures(samples=(float(bad),)),
        unit="tests that do not pass",
        bar="= 0",
        verdict=lambda value, ran=ran: value == 0 and ran > 0,
        value=bad,
    )


def counted(report: str) -> tuple[int, int]:
    """The counts of a JUnit report: tests, and those that failed or were skipped."""
    suites = list(ET.fromstring(report).iter("testsuite"))  # noqa: S314 - pytest wrote it just now
    total = sum(int(suite.get("tests", 0)) for suite in suites)
    bad = sum(
        int(suite.get(name, 0)) for suite in suites for name in ("failures", "errors", "skipped")
    )
    return total, bad
