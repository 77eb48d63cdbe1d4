"""Engines: the query of `engine_replay`, each sample in a separate process, engines in turn.

Results of engines are compared; a difference is an error. A sample is warm: its process runs the query once before it is
timed. CPU seconds are those of the process and of all that it started.
"""

import functools
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.bench import engine_replay
from tests.bench.harness import Figures, Row, alone, cost, say
from tests.servers import spark
from tests.servers.s3 import S3Server

HEAP = "4g"
SIZES = (5_000_000, 25_000_000, 100_000_000)
"""Samples, smallest first."""

SECONDS = 7_200
ENGINES = ("local", "spark", "duckdb", "polars")
LOCAL_MOST = 25_000_000
"""The largest number of samples that the local engine has bars for; Spark has them from here on."""

ROUNDS = 3
WARM = 2
"""Rounds in a process; the first one is left out."""

EXECUTORS = {
    "spark.executor.cores": "1",
    "spark.executor.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
}

Samples = dict[str, dict[str, list[float]]]
"""Candidate -> figure -> samples."""


@contextmanager
def samples(count: int) -> Iterator[str]:
    """A folder with a given number of samples."""
    with tempfile.TemporaryDirectory(prefix="kquota-bench-") as folder:
        say(f"making {count:,} samples")
        _ = ran("make", count, f"{folder}/samples")
        yield f"{folder}/samples"


def ran(*words: object, environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Run one process, and return what it printed."""
    answer = subprocess.run(
        [sys.executable, "-m", "tests.bench.engine_replay", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
        env={**os.environ, **(environment or {})},
    )
    if answer.returncode == -signal.SIGKILL:
        raise SystemExit(f"{words} was killed: object_store was too little memory")
    if answer.returncode != 0:
        raise SystemExit(f"{words} failed:\n{answer.stderr[-3000:]}")
    document: dict[str, Any] = json.loads(answer.stdout or "{}")
    return document


def rows(sizes: Sequence[int]) -> Iterator[Row]:
    """The same query in four engines, files read each time."""
    for amount in sizes:
        with samples(amount) as folder:
            words = [engine_words(engine, folder) for engine in ENGINES]
            rounds = ROUNDS if amount <= LOCAL_MOST else 1
            measured = in_turn(dict(zip(ENGINES, words, strict=True)), rounds)
        yield from engine_rows(amount, measured)


def place_rows() -> Iterator[Row]:
    """The same query over object storage, and on one and two executors."""
    with samples(LOCAL_MOST) as folder:
        yield from object_rows(LOCAL_MOST, folder)
        yield from executor_rows(LOCAL_MOST, folder)


def engine_words(engine: str, folder: str) -> Callable[[], dict[str, Any]]:
    """A sample of an engine."""
    if engine == "spark":
        return lambda: ran("spark", folder, WARM, HEAP, f"local[{engine_replay.CORES}]")
    return lambda: ran(engine, folder, WARM)


def in_turn(
    candidates: Mapping[str, Callable[[], dict[str, Any]]], rounds: int = ROUNDS
) -> Samples:
    """Run each candidate once in each round; their answers must be equal."""
    measured: Samples = {name: {} for name in candidates}
    answers = set[tuple[int, ...]]()
    for _ in range(rounds):
        for name, run in candidates.items():
            document = run()
            say(f"  {name}: {json.dumps(document['figures'])}")
            answers.add(tuple(document["answer"]))
            for figure, value in document["figures"].items():
                measured[name].setdefault(figure, []).append(value)
    if len(answers) != 1:
        raise SystemExit(f"the engines do not agree: {sorted(answers)}")
    return measured


def engine_rows(amount: int, measured: Samples) -> Iterator[Row]:
    """Ours against DuckDB and Polars."""

    def of(engine: str, figure: str) -> Figures:
        return Figures(samples=tuple(measured[engine][figure]))

    work = f"simulate {amount:,} samples on 2 cores"
    if amount <= LOCAL_MOST:
        local = f"{work}, local"
        yield cost(local, "DuckDB", of("local", "cpu"), of("duckdb", "cpu"), 0.35, "s CPU")
        yield cost(local, "Polars", of("local", "wall"), of("polars", "wall"), 1.0, "s wall")
        yield alone(f"{local}: most memory", of("local", "rss_mb"), "MB", most=1500)
    if amount >= LOCAL_MOST:
        warm = f"{work}, Spark, warm"
        yield cost(warm, "DuckDB", of("spark", "wall"), of("duckdb", "wall"), 0.5, "s wall")
        yield cost(warm, "Polars", of("spark", "wall"), of("polars", "wall"), 1.0, "s wall")


def object_rows(amount: int, folder: str) -> Iterator[Row]:
    """The same files from a server for object storage, whose CPU is not counted, against the folder."""
    with S3Server("bench") as server:
        os.environ.update(server.environment)
        object_store = "s3://bench/samples"
        engine_replay.copy(folder, object_store)
        master = f"local[{engine_replay.CORES}]"
        measured = in_turn(
            {
                name: functools.partial(ran, *words)
                for name, words in {
                    "local, folder": ("local", folder, WARM),
                    "local, S3": ("local", object_store, WARM),
                    "Spark, folder": ("spark", folder, WARM, HEAP, master),
                    "Spark, S3": ("spark", object_store, WARM, HEAP, master),
                }.items()
            }
        )
        for name in server.environment:
            del os.environ[name]
    for engine in ("local", "Spark"):
        s3, local = (
            Figures(samples=tuple(measured[f"{engine}, {place}"]["cpu"]))
            for place in ("S3", "folder")
        )
        work = f"simulate {amount:,} samples from S3, {engine}"
        yield cost(work, "folder", s3, local, 1.3, "s CPU")


def executor_rows(amount: int, folder: str) -> Iterator[Row]:
    """Two executors with one core each against one, in a standalone cluster."""
    with spark.StandaloneCluster(workers=engine_replay.CORES) as cluster:
        # Readers of Parquet use all cores that they find.
        cluster.pin()

        def with_executors(count: int) -> dict[str, Any]:
            settings = {**EXECUTORS, "spark.cores.max": str(count)}
            words = " ".join(f"--conf {name}={value}" for name, value in settings.items())
            environment = {**spark.LOOPBACK, "PYSPARK_SUBMIT_ARGS": f"{words} pyspark-shell"}
            environment["PYTHONPATH"] = str(Path(__file__).parents[2])
            return ran("spark", folder, WARM, "1g", cluster.master, environment=environment)

        measured = in_turn({"1": lambda: with_executors(1), "2": lambda: with_executors(2)})
    single, double = (Figures(samples=tuple(measured[count]["wall"])) for count in ("1", "2"))
    work = f"simulate {amount:,} samples, two executors with one core"
    yield Row(
        work=work,
        peer="one executor",
        figures=double,
        peer_figures=single,
        unit="s wall",
        bar=">= 1.85x faster",
        verdict=lambda value: value >= 1.85,
        value=single.median / double.median,
    )
