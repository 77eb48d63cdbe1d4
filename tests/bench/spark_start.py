"""Start of Spark sessions (T1), and one core against two (T10).

``python -m tests.bench.spark_start start|scaling [--rounds N] [--rows N]``; both print rows of `harness.Row`.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tests.bench import spark_work
from tests.bench.harness import ROUNDS, Figures, Row, interleaved, say, wall_of
from tests.servers import spark as servers
from tests.servers.processes import ScratchFolder

KINDS = ("default", "settings", "settings brief")
ROWS = 8_000_000
WORK = Path(spark_work.__file__)
SCALE_BAR = 1.4


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "tests.bench.spark_work", *words]


def start_rows(rounds: int = ROUNDS) -> Iterator[Row]:
    """Whole processes with one tiny aggregation."""
    results = interleaved({kind: wall_of(command("start", kind)) for kind in KINDS}, rounds=rounds)
    walls = {kind: results[kind]["wall"] for kind in KINDS}
    base = walls["default"]
    for kind in KINDS[1:]:
        yield Row(
            work=f"start, one tiny question, end ({kind})",
            peer="PySpark's defaults",
            figures=walls[kind],
            peer_figures=base,
            unit="s wall",
            bar="-",
            verdict=lambda _: True,
            value=walls[kind].median / base.median,
        )


def scaling_rows(rounds: int = ROUNDS, rows: int = ROWS) -> Iterator[Row]:
    """Rollups of many samples, warm, on one core and on two: threads of a session, executors of a cluster."""
    with (
        ScratchFolder.make("bench-spark-") as folder,
        servers.StandaloneCluster(workers=2) as cluster,
    ):
        data = str(folder / "samples")
        say(f"making {rows:,} samples")
        wall_of(command("make", str(rows), data))()
        package = servers.wheel(folder)
        results = interleaved(
            {
                "local[1]": local(1, data),
                "local[2]": local(2, data),
                "one executor": on(cluster, 1, data, package),
                "two executors": on(cluster, 2, data, package),
            },
            rounds=rounds,
        )
    for first, second in (("local[1]", "local[2]"), ("one executor", "two executors")):
        yield _gain(first, second, results[first]["seconds"], results[second]["seconds"], rows)


def _gain(text: str, two: str, slow: Figures, quick: Figures, rows: int) -> Row:
    return Row(
        work=f"both rollups of {rows:,} samples, warm: {two}",
        peer=text,
        figures=quick,
        peer_figures=slow,
        unit="s",
        bar=f">= {SCALE_BAR}x faster",
        verdict=lambda value: value >= SCALE_BAR,
        value=slow.median / quick.median,
    )


def local(cores: int, data: str) -> Callable[[], Mapping[str, float]]:
    words = command("local", str(cores), data)

    def run() -> Mapping[str, float]:
        import subprocess

        answer = subprocess.run(words, capture_output=True, text=True, check=True, timeout=900)
        return {"seconds": float(json.loads(answer.stdout)["seconds"])}

    return run


def on(
    cluster: servers.StandaloneCluster, cores: int, data: str, package: Path
) -> Callable[[], Mapping[str, float]]:
    output = package.parent / "seconds.json"

    def run() -> Mapping[str, float]:
        done = cluster.submit(WORK, ["submitted", data, str(output)], package=package, cores=cores)
        if done.returncode != 0:
            raise SystemExit(f"spark-submit ended with {done.returncode}:\n{done.stderr[-2000:]}")
        return {"seconds": float(json.loads(output.read_text(encoding="utf-8"))["seconds"])}

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["start", "scaling"])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--rows", type=int, default=ROWS)
    arguments = parser.parse_args()
    rows = (
        start_rows(arguments.rounds)
        if arguments.part == "start"
        else scaling_rows(arguments.rounds, arguments.rows)
    )
    for row in rows:
        peer_median = row.peer_figures.median if row.peer_figures else 0.0
        print(
            f"{row.work} | {row.figures.median:.2f} ({row.figures.spread}) against {peer_median:.2f} {row.unit} of {row.peer}"
            f" | {row.value:.2f} | {row.bar} | {'met' if row.met else 'MISSED'}"
        )


if __name__ == "__main__":
    main()
