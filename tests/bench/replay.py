"""Other engines: the query of `engine_replay`, each sample in a separate process, engines in turn.

A sample is warm: every process runs its query once before it is timed, except the local engine, which needs no warm-up. The
results of the engines are compared; a difference is an error.
"""

import json
import math
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tests.bench.harness import ROUNDS, Figures, Row, say

HEAP = "4g"
SIZES = (1_000_000, 5_000_000, 25_000_000, 100_000_000)
"""Samples, smallest first."""

SECONDS = 7_200
PEERS = {"duckdb": "DuckDB", "polars": "Polars", "local": "local engine"}
BARS, LARGEST = {"duckdb": 1.0, "polars": 2.0}, 100_000_000
"""Maximum time of Spark relative to its peers, at this number of samples."""

WARM = 2
"""Rounds in a process without a session; the first one is left out."""


@contextmanager
def samples(count: int) -> Iterator[str]:
    """A folder with a given number of samples."""
    with tempfile.TemporaryDirectory(prefix="kquota-bench-") as folder:
        say(f"making {count:,} samples")
        _ = ran("make", count, f"{folder}/samples")
        yield f"{folder}/samples"


def ran(*words: object) -> dict[str, Any] | None:
    """Run one process; return nothing if its memory was too small. Any other failure is an error."""
    answer = subprocess.run(
        [sys.executable, "-m", "tests.bench.engine_replay", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    if answer.returncode == 0:
        document: dict[str, Any] = json.loads(answer.stdout or "{}")
        return document
    say(f"  {words[0]} ended with {answer.returncode}: {answer.stderr[-500:]}")
    if is_short_of_memory(answer.returncode, answer.stderr):
        return None
    raise SystemExit(f"{words} failed:\n{answer.stderr[-3000:]}")


def is_short_of_memory(status: int, stderr: str) -> bool:
    """Whether a process was killed by the system, or reported that its memory was too small."""
    return status == -signal.SIGKILL or any(
        word in stderr
        for word in ("OutOfMemory", "Out of Memory", "MemoryError", "memory allocation of")
    )


def rows(sizes: Sequence[int], rounds: int = ROUNDS) -> Iterator[Row]:
    """The same query in four engines, files read each time."""
    for amount in sizes:
        with samples(amount) as folder:
            seconds = crossed(folder, rounds)
        figures = Figures(samples=tuple(seconds["spark"]))
        for peer, name in PEERS.items():
            bar = BARS.get(peer) if amount == LARGEST else None
            peer_figures = Figures(samples=tuple(seconds[peer]))
            yield Row(
                work=f"simulate {amount:,} samples on 2 cores, warm",
                peer=name,
                figures=figures,
                peer_figures=peer_figures,
                unit="s wall",
                bar=f"<= {bar:g}x" if bar else "-",
                verdict=lambda value, bar=bar: bar is None or value <= bar,
                value=figures.median / peer_figures.median
                if math.isfinite(peer_figures.median)
                else 0.0,
            )


def crossed(folder: str, rounds: int) -> dict[str, list[float]]:
    """Seconds by engine; infinite for those that did not finish."""
    seconds: dict[str, list[float]] = {name: [] for name in ("spark", *PEERS)}
    answers = set[tuple[int, ...]]()
    for _ in range(rounds):
        for engine, figures in seconds.items():
            document = engine_sample(engine, folder)
            figures.append(document["seconds"][engine][-1] if document else math.inf)
            if document:
                answers.add(tuple(document["answer"]))
            say(
                f"  {engine}: {figures[-1]:.2f} s"
                + (f", {document['rss_mb']} MB" if document else "")
            )
    if len(answers) != 1:
        raise SystemExit(f"the engines do not agree: {sorted(answers)}")
    return seconds


def engine_sample(engine: str, folder: str) -> dict[str, Any] | None:
    """Run one process; return nothing if its memory was too small."""
    if engine == "spark":
        return ran("spark", folder, 1, HEAP)
    return ran(engine, folder, 1 if engine == "local" else WARM)
