"""Runs the failed tests of the last run once more, one after another: ``python -m tests.rerun``.

A test that fails among others and passes alone is a fault of the test or of the product, and is printed as such. It
does not fail the run, so that one slow answer of a busy machine does not hide the result of thousands of tests. More
than `MOST_TESTS` failures are never run again.
"""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LAST_FAILED = ROOT / ".pytest_cache" / "v" / "cache" / "lastfailed"
MOST_TESTS = 5
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider")


def failed_tests(cache: Path) -> list[str]:
    """Node ids of the tests that failed last; empty without a pytest cache."""
    if not cache.is_file():
        return []
    return sorted(json.loads(cache.read_text(encoding="utf-8")))


def main(cache: Path = LAST_FAILED) -> int:
    """Return 0 if each failed test passes now, 1 otherwise."""
    nodes = failed_tests(cache)
    if not nodes:
        print("the last run failed without a failed test; see its output")
        return 1
    if len(nodes) > MOST_TESTS:
        print(f"{len(nodes)} tests failed; at most {MOST_TESTS} are run again")
        return 1
    status = {
        node: subprocess.run([*PYTEST, node], cwd=ROOT, check=False).returncode for node in nodes
    }
    for node, code in status.items():
        print(f"UNSTABLE, passes alone: {node}" if code == 0 else f"FAILS AGAIN: {node}")
    return 1 if any(status.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
