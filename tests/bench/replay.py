"""T2, T6, T7 and T8 as rows: the queries of `spark_replay`, each sample in a separate process, engines in turn.

A sample is warm: every process runs its query once before it is timed, except the core, which needs no warm-up. The
results of the engines are compared; a difference is an error.
"""

import json
import math
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

from tests.bench.harness import Figures, Row, say
from tests.bench.spark_simulate import BYTES_PER_ROW, HEAPS, SECONDS, sample, samples

MASTER, MEMORY, LARGE = "local[2]", "2g", "4g"
PEERS = {"duckdb": "DuckDB", "polars": "Polars", "core": "core"}
BARS, LARGEST = {"duckdb": 1.0, "polars": 2.0}, 100_000_000
"""Maximum time of Spark relative to its peers, at this number of samples."""

CORE_AT_MOST = 25_000_000
"""Above this number of samples, the core is measured once, because a round takes minutes."""

WARM = 2
"""Rounds in a process without a session; the first one is left out."""

BILLION = 1_000_000_000
SPILLED = 6
"""Disk space of a sort, including its input, as a multiple of the bytes of compressed samples."""


def ran(*words: object) -> dict[str, Any] | None:
    """Run one process; return nothing if its memory was too small. Any other failure is an error."""
    answer = subprocess.run(
        [sys.executable, "-m", "tests.bench.spark_replay", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    if answer.returncode == 0:
        document: dict[str, Any] = json.loads(answer.stdout)
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


def in_spark(
    folder: str, ways: str = "packed", rounds: int = 1, memory: str = MEMORY
) -> dict[str, Any]:
    """Seconds of each way, and the result; one warm session."""
    document = sample("spark", folder, ways, rounds, MASTER, memory)
    assert document is not None
    return document


def t2(rounds: int, rows: int) -> Iterator[Row]:
    """Runs through the shuffle against samples through it, sessions included."""
    with samples(rows) as folder:
        seconds = in_spark(folder, "packed,arrow", rounds)["seconds"]
    figures = Figures(samples=tuple(seconds["packed"]))
    peer_figures = Figures(samples=tuple(seconds["arrow"]))
    yield Row(
        work=f"simulate {rows:,} samples, sessions included, warm",
        peer="a shuffle of samples",
        figures=figures,
        peer_figures=peer_figures,
        unit="s wall",
        bar="<= 0.75x",
        verdict=lambda value: value <= 0.75,
        value=figures.median / peer_figures.median,
    )


def t6(rows: int | None) -> Iterator[Row]:
    """A billion samples, or the number that fits half of the free disk; with a heap of 4 GB."""
    free = shutil.disk_usage(tempfile.gettempdir()).free
    amount = rows or min(BILLION, free // 2 // (SPILLED * BYTES_PER_ROW))
    with samples(amount) as folder:
        document = ran("spark", folder, "packed", 0, MASTER, LARGE)
    seconds = document["seconds"]["packed"][0] if document else math.inf
    yield Row(
        work=f"simulate {amount:,} samples with a heap of 4 GB, the first question of its session",
        peer="",
        peer_figures=None,
        figures=Figures(samples=(seconds,)),
        unit="s wall",
        bar="finishes",
        verdict=math.isfinite,
        value=seconds,
    )


def megabytes(heap: str) -> float:
    """A size in the notation of Java."""
    return float(heap[:-1]) * {"m": 1, "g": 1024}[heap[-1]]


def t7(rounds: int, rows: int) -> Iterator[Row]:
    """Five times the rows: time, and the smallest heap that finishes."""
    times, heaps = list[Figures](), list[float]()
    for amount in (rows, 5 * rows):
        with samples(amount) as folder:
            document = in_spark(folder, rounds=rounds, memory=LARGE)
            times.append(Figures(samples=tuple(document["seconds"]["packed"])))
            heaps.append(smallest(folder))
            say(f"  {amount:,}: {times[-1].median:.1f} s, {heaps[-1]:.0f} MB")
    work = f"five times {rows:,} samples"
    yield Row(
        work=f"{work}: time, warm",
        peer="once",
        figures=times[1],
        peer_figures=times[0],
        unit="s wall",
        bar="<= 5.5x",
        verdict=lambda value: value <= 5.5,
        value=times[1].median / times[0].median,
    )
    yield Row(
        work=f"{work}: smallest heap that finishes, of {', '.join(HEAPS)}",
        peer="once",
        unit="MB",
        bar="<= 1.5x",
        figures=Figures(samples=(heaps[1],)),
        peer_figures=Figures(samples=(heaps[0],)),
        verdict=lambda value: value <= 1.5,
        value=heaps[1] / heaps[0],
    )


def smallest(folder: str) -> float:
    """The smallest heap in megabytes; infinite if none is enough."""
    for heap in HEAPS:
        if sample("spark", folder, "packed", 0, MASTER, heap, fails=True) is not None:
            return megabytes(heap)
    return math.inf


def t8(rounds: int, sizes: Sequence[int]) -> Iterator[Row]:
    """The same query in four engines, files read each time."""
    for amount in sizes:
        with samples(amount) as folder:
            seconds = crossed(folder, rounds, amount)
        figures = Figures(samples=tuple(seconds["packed"]))
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


def crossed(folder: str, rounds: int, amount: int) -> dict[str, list[float]]:
    """Seconds by engine; infinite for those that did not finish."""
    seconds: dict[str, list[float]] = {name: [] for name in ("packed", *PEERS)}
    answers = set[tuple[int, ...]]()
    for number in range(rounds):
        for engine, figures in seconds.items():
            if engine == "core" and number and amount > CORE_AT_MOST:
                continue
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
    if engine == "packed":
        return ran("spark", folder, "packed", 1, MASTER, LARGE)
    return ran(engine, folder, 1 if engine == "core" else WARM)
