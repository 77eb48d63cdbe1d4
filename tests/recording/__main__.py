"""`python -m tests.recording`: records real brokers into the fixture, or prints the fixture's results (`--table`).

Each run takes eleven minutes. Several can run at once (one process each) on an idle machine: together they move
about a megabyte a second. The key of the pseudonyms is generated here and deleted, so runs that are recorded separately
share no names.
"""

import argparse
import os
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.recording import broker_run, compare, fixture
from tests.recording.runs import RUNS


def parser() -> argparse.ArgumentParser:
    argument_parser = argparse.ArgumentParser(prog="python -m tests.recording", description=__doc__)
    argument_parser.add_argument(
        "--runs",
        default=",".join(str(run.number) for run in RUNS),
        help="which, such as 1,4 (default: all)",
    )
    argument_parser.add_argument(
        "--out", type=Path, default=fixture.FOLDER, help="folder of the fixture"
    )
    argument_parser.add_argument(
        "--table", action="store_true", help="print told and true figures, record nothing"
    )
    return argument_parser


def say(line: str) -> None:
    """Print a line and flush."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(words: Sequence[str] | None = None) -> int:
    """Record the chosen runs one after the other, or print the table."""
    arguments = parser().parse_args(words)
    if arguments.table:
        say(compare.table())
        return 0
    numbers = {int(part) for part in arguments.runs.split(",")}
    for run in RUNS:
        if run.number in numbers:
            recorded = broker_run.record(
                run, say=lambda text: say(f"{text}; load {os.getloadavg()[0]:.1f}")
            )
            for path in fixture.write(recorded, secrets.token_bytes(32), arguments.out):
                say(str(path))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
