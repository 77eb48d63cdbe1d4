"""Measurements of whole commands over recorded use: `usage show` and `recommend` of a recording, and an ingest of two million points."""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reconciler.usage.samples import DAY_MS
from tests.bench.harness import Row, alone, interleaved, wall_of
from tests.evidence.ingest.test_with_prometheus import Stored
from tests.servers import prometheus

KQUOTA = [sys.executable, "-m", "reconciler"]
ROOT = Path(__file__).parents[2]
DAY = 1_793_491_200_000 // DAY_MS * DAY_MS
STEP_MS, BROKERS, USERS = 30_000, 6, 57
"""2 million points: 116 series of a broker at 2,880 scrapes of a day."""


def report_rows() -> Iterator[Row]:
    """Commands over a lake that the pipeline of the examples leaves: some 250 samples on the last day."""
    with tempfile.TemporaryDirectory(prefix="pipeline-") as folder:
        _ = wall_of([sys.executable, "examples/pipeline.py", "--keep", folder], cwd=ROOT)()
        window = [
            "--from",
            "2026-11-21",
            "--to",
            "2026-11-22",
            "--lake",
            "lake",
            "--cluster",
            "recorded",
        ]
        commands = {
            name: wall_of([*KQUOTA, "usage", name, *window], cwd=Path(folder), expect="recorded")
            for name in ("show", "recommend")
        }
        figures = interleaved(commands, warmup=True)
    for name, of_command in figures.items():
        yield alone(
            f"usage {name} over 250 samples, whole command", of_command["wall"], "s wall", most=1.5
        )


def exported() -> Iterator[str]:
    """Lines of a day as OpenMetrics text, series by series."""
    times = [(DAY + number * STEP_MS) / 1000 for number in range(DAY_MS // STEP_MS)]
    for name, kind in (("byte_rate", "rate"), ("throttle_time_ms", "ms")):
        for broker in range(1, BROKERS + 1):
            for user in range(USERS):
                labels = (
                    f'cluster="orders",instance="b{broker}:7071",user="u{user:02d}",type="produce"'
                )
                series = f"kafka_server_client_quota_{name}{{{labels}}}"
                for at, ts in enumerate(times):
                    value = (at * 7919 + user * 104_729) % 9_000_000 if kind == "rate" else "NaN"
                    yield f"{series} {value} {ts}"
    for name in ("kafka_server_app_info", "up"):
        for broker in range(1, BROKERS + 1):
            own = f'cluster="orders",instance="b{broker}:7071"'
            own += f',broker_id="{broker}"' if name != "up" else ""
            yield from (f"{name}{{{own}}} 1 {ts}" for ts in times)
    yield "# EOF"


@contextmanager
def recorded_day(folder: Path) -> Iterator[str]:
    """The URL of a Prometheus with a day of two million points."""
    with (folder / "day.txt").open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in exported())
    blocks = folder / "blocks"
    _ = prometheus.promtool(
        "tsdb", "create-blocks-from", "openmetrics", str(folder / "day.txt"), str(blocks)
    )
    with Stored(blocks) as server:
        yield server.url


def ingest_rows() -> Iterator[Row]:
    """One run that reads and writes a whole day; the server's CPU is not counted."""
    with (
        tempfile.TemporaryDirectory(prefix="points-") as place,
        recorded_day(Path(place)) as url,
    ):
        lake = Path(place) / "lake"
        window = ["--from", "2026-11-01T00:00:00Z", "--to", "2026-11-02T00:00:00Z"]
        source = ["--cluster-id", "A" * 22, "--prometheus", url, "--matchers", 'cluster="orders"']
        sample = wall_of(
            [*KQUOTA, "usage", "ingest", *source, "--step", "30s", *window, "--lake", str(lake)],
            before=lambda: shutil.rmtree(lake, ignore_errors=True),
            expect="984,960 samples",
        )
        figures = interleaved({"ingest": sample}, rounds=3)["ingest"]
    work = "ingest of 2 M points of a day from Prometheus, whole command"
    yield alone(work, figures["cpu"], "s CPU", most=6)


def rows() -> Iterator[Row]:
    """Reports of a recording, the pipeline of the examples, and an ingest."""
    pipeline = wall_of([sys.executable, "examples/pipeline.py"], cwd=ROOT, expect="in all")
    figures = interleaved({"pipeline": pipeline}, rounds=3)["pipeline"]
    yield alone("make pipeline", figures["wall"], "s wall", most=15)
    yield from report_rows()
    yield from ingest_rows()
