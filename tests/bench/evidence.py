"""`kquota plan --evidence` as a whole process: one tenant of twenty, 14 days at 30 s, on six brokers.

The extra ``usage``, which a preview installs, has no pandas; Arrow imports it (0.4 s) wherever it is installed. Both
commands therefore run without it.
"""

import random
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from reconciler.base.clock import SystemClock
from reconciler.codecs.state import state_document
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.state import QuotaState, limits_of
from reconciler.render.json_values import dump
from reconciler.usage.samples import DAY_MS
from tests.bench.harness import Row, interleaved, wall_of
from tests.cli.projects import project, quota
from tests.evidence.store.evidence import published

CLUSTER = "AAAAAAAAAAAAAAAAAAAAAA"
TENANTS = 20
DAYS, BROKERS = 14, 6

_WITHOUT_PANDAS = """
import sys

class NoPandas:
    def find_spec(self, name, *_):
        if name == "pandas":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, NoPandas())
from reconciler.__main__ import main
main()
"""


@contextmanager
def workspace() -> Iterator[dict[str, Callable[[], Mapping[str, float]]]]:
    """A project whose documents halve one limit, a snapshot, evidence of all clients; and the command."""
    chance = random.Random(1)
    users = [f"tenant-{number:02d}" for number in range(TENANTS)]
    limits = dict.fromkeys(users, 20e6)
    now_ms = round(SystemClock().now() * 1000)
    with tempfile.TemporaryDirectory(prefix="evidence-") as place:
        folder = Path(place)
        _ = published(
            folder / "evidence",
            CLUSTER,
            dict.fromkeys(users, lambda _: chance.randrange(2_000_000, 14_000_000)),
            end_ms=now_ms // DAY_MS * DAY_MS,
            days=DAYS,
            brokers=[str(number) for number in range(1, BROKERS + 1)],
            limits=limits,
        )
        live = QuotaState(
            limits={
                entity(user=user): limits_of({Key.PRODUCER_BYTE_RATE: value})
                for user, value in limits.items()
            }
        )
        document = state_document(live, cluster_id=CLUSTER, taken_at="")
        (folder / "now.json").write_text(dump(document))
        telemetry = "  telemetry: {evidenceUri: evidence}\n"
        project(
            folder,
            "localhost:9092",
            quota(users[0], "{producerByteRate: 10000000}"),
            more=telemetry,
        )
        command = [
            sys.executable,
            "-c",
            _WITHOUT_PANDAS,
            "plan",
            "--offline",
            "--snapshot",
            "now.json",
            "--no-inventory",
        ]
        yield {
            "with": wall_of(command, cwd=folder, expect="will be worse off"),
            "without": wall_of([*command, "--no-evidence"], cwd=folder, expect="1 to update"),
        }


def rows() -> Iterator[Row]:
    """The preview against the same without recorded use."""
    with workspace() as candidates:
        results = interleaved(candidates, warmup=True)
    wall, without = (results[name]["wall"] for name in ("with", "without"))
    yield Row(
        work="preview with evidence, one tenant, 14 d at 30 s, 6 brokers, whole process",
        peer="the same without evidence",
        figures=wall,
        peer_figures=without,
        unit="s wall",
        bar="<= 0.45 s more",
        verdict=lambda value: value <= 0.45,
        value=wall.median - without.median,
    )
