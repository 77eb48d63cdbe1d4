"""`python -m tests.fleet --out LAKE`: a synthetic fleet as a lake, with its true demand in a separate folder."""

import argparse
import re
import sys
import time
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from tests.fleet.lake_writer import write
from tests.fleet.spec import Fleet

UNITS = {"s": 1_000, "m": 60_000}


def milliseconds(text: str) -> int:
    """A step such as 30s or 1m."""
    match = re.fullmatch(r"(\d+)([sm])", text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text} is no step such as 30s")
    return int(match[1]) * UNITS[match[2]]


def parser() -> argparse.ArgumentParser:
    argument_parser = argparse.ArgumentParser(prog="python -m tests.fleet", description=__doc__)
    for name, value in (("clusters", 2), ("brokers", 3), ("groups", 8), ("days", 2), ("seed", 1)):
        argument_parser.add_argument(f"--{name}", type=int, default=value)
    argument_parser.add_argument(
        "--step", type=milliseconds, default=30_000, help="scrape step, such as 30s"
    )
    argument_parser.add_argument(
        "--first", type=date.fromisoformat, default=date(2026, 9, 7), help="first day, UTC"
    )
    argument_parser.add_argument("--quiet", action="store_true", help="no events")
    argument_parser.add_argument("--out", required=True, help="the lake: a folder or an address")
    argument_parser.add_argument("--truth", type=Path, help="folder for events and true demand")
    return argument_parser


def main(words: Sequence[str] | None = None) -> int:
    """Write the fleet, and print the speed."""
    arguments = parser().parse_args(words)
    fleet = Fleet(
        clusters=arguments.clusters,
        brokers=arguments.brokers,
        groups=arguments.groups,
        days=arguments.days,
        step_ms=arguments.step,
        first=arguments.first,
        seed=arguments.seed,
        quiet=arguments.quiet,
    )
    began = time.monotonic()
    written = write(fleet, arguments.out, truth=arguments.truth)
    took = time.monotonic() - began
    for name, count in written.rows.items():
        sys.stdout.write(f"{count:>14,}  {name}\n")
    sys.stdout.write(
        f"{written.total:>14,}  rows in {took:.1f} s: {written.total / took * 60:,.0f} a minute\n"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
