"""Replaying and sizing recorded use: `python -m tests.bench.spark_simulate t2|t6|t7|t8|t13|switch`, a table on stdout.

Each figure has its own command, so that it can be measured on an idle machine. Fewer rows: `--rows N`.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.bench.harness import ROUNDS, say

T2_ROWS = 5_760_000
T7_ROWS = 20_000_000
T8_ROWS = (1_000_000, 5_000_000, 25_000_000, 100_000_000)
SWITCH_ROWS = (1_000_000, 4_000_000, 16_000_000)
BYTES_PER_ROW = 6
HEAPS = ("400m", "500m", "600m", "700m", "800m", "1g", "1300m", "1600m", "2g", "3g", "4g")
SECONDS = 7_200


def sample(*words: object, fails: bool = False) -> dict[str, object] | None:
    """Run one process; return its JSON, or nothing if it fails and may fail."""
    answer = subprocess.run(
        [sys.executable, "-m", "tests.bench.spark_replay", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    if answer.returncode:
        if fails:
            return None
        raise SystemExit(f"{words} failed:\n{answer.stderr[-3000:]}")
    return json.loads(answer.stdout) if answer.stdout.strip() else {}


@contextmanager
def samples(rows: int) -> Iterator[str]:
    """A folder with a given number of samples."""
    with tempfile.TemporaryDirectory(prefix="kquota-bench-") as folder:
        say(f"making {rows:,} samples")
        _ = sample("make", rows, f"{folder}/samples")
        yield f"{folder}/samples"


def medians(document: dict[str, object] | None) -> dict[str, float]:
    assert document is not None
    seconds = document["seconds"]
    assert isinstance(seconds, dict)
    for way, each in seconds.items():
        say(
            f"  {way}: {[round(value, 2) for value in each]} s, answer {document['answer']}, {document['rss_mb']} MB"
        )
    return {way: statistics.median(each) for way, each in seconds.items()}


def row(*cells: object) -> None:
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def verdict(value: float, bar: float) -> str:
    return f"{value:.2f} (bar {bar:g}: {'met' if value <= bar else 'MISSED'})"


def t2(rows: int) -> None:
    """Runs through the shuffle against samples through it, sessions included, warm."""
    with samples(rows) as folder:
        seconds = medians(sample("spark", folder, "packed,arrow", ROUNDS, "local[2]", "2g"))
    row(
        "T2",
        f"{rows:,} rows",
        f"packed {seconds['packed']:.2f} s",
        "of applyInArrow",
        verdict(seconds["packed"] / seconds["arrow"], 0.75),
    )


def t6(rows: int | None) -> None:
    """The largest size that fits half of the free disk, at most a billion, with a heap of 4 GB."""
    free = shutil.disk_usage(tempfile.gettempdir()).free
    # Spark spills about five times the size of compressed samples.
    amount = rows or min(1_000_000_000, free // 2 // (6 * BYTES_PER_ROW))
    with samples(amount) as folder:
        seconds = medians(sample("spark", folder, "packed", 0, "local[2]", "4g"))
    row("T6", f"{amount:,} rows", f"{seconds['packed']:.0f} s", "heap 4 GB", "finished (met)")


def t7(rows: int) -> None:
    """Five times the rows: time, and the smallest heap that finishes."""
    numbers: list[float] = []
    heaps: list[str] = []
    for amount in (rows, 5 * rows):
        with samples(amount) as folder:
            numbers.append(
                medians(sample("spark", folder, "packed", 2, "local[2]", "4g"))["packed"]
            )
            for heap in HEAPS:
                if sample("spark", folder, "packed", 0, "local[2]", heap, fails=True) is not None:
                    heaps.append(heap)
                    break
            else:
                raise SystemExit(f"no heap up to {HEAPS[-1]} was enough for {amount:,} rows")
    sizes = [int(size[:-1]) * (1000 if size.endswith("g") else 1) for size in heaps]
    row(
        "T7",
        f"{rows:,} x 5 rows",
        f"{numbers[0]:.1f} -> {numbers[1]:.1f} s",
        "time",
        verdict(numbers[1] / numbers[0], 5.5),
    )
    row(
        "T7",
        f"{rows:,} x 5 rows",
        f"{heaps[0]} -> {heaps[1]}",
        "smallest heap",
        verdict(sizes[1] / sizes[0], 1.5),
    )


def t8(sizes: Sequence[int]) -> None:
    """The same query in four engines, files read each time; the size from which the JVM is faster."""
    for amount in sizes:
        with samples(amount) as folder:
            seconds = medians(sample("spark", folder, "packed", 3, "local[2]", "4g"))
            answers = set()
            for engine in ("duckdb", "polars", "core"):
                document = sample(engine, folder, 1 if engine == "core" else 3, fails=True)
                if document is None:
                    row("T8", f"{amount:,} rows", engine, "did not finish", "")
                    continue
                answers.add(json.dumps(document["answer"]))
                seconds |= medians(document)
            assert len(answers) <= 1, answers
        for engine in seconds:
            bar = 2.5 if amount == 25_000_000 and engine == "duckdb" else None
            ratio = seconds["packed"] / seconds[engine]
            row(
                "T8",
                f"{amount:,} rows",
                f"{engine} {seconds[engine]:.2f} s",
                "Spark against it",
                verdict(ratio, bar) if bar else f"{ratio:.2f}",
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["t2", "t6", "t7", "t8", "t13", "switch"])
    parser.add_argument("--rows", type=int, action="append", help="instead of the usual size")
    parser.add_argument(
        "--public",
        type=Path,
        help="t13: a folder with CSV files of public series (timestamp,value)",
    )
    arguments = parser.parse_args()
    first = arguments.rows[0] if arguments.rows else None
    match arguments.what:
        case "t2":
            t2(first or T2_ROWS)
        case "t6":
            t6(first)
        case "t7":
            t7(first or T7_ROWS)
        case "t8":
            t8(arguments.rows or T8_ROWS)
        case "switch":
            from tests.bench import spark_switch

            spark_switch.switch(arguments.rows or list(SWITCH_ROWS), rounds=3)
        case _:
            from tests.bench import sizing

            sizing.t13(arguments.public)


if __name__ == "__main__":
    main()
