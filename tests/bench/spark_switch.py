"""The size at which `kquota spark simulate --engine auto` changes from core to Spark: whole commands with JVM start."""

import datetime as dt
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from reconciler.base.clock import SystemClock
from reconciler.evidence.store import scrape_interval
from reconciler.evidence.store.files import arrow_tables
from reconciler.evidence.store.files.object_store import opened
from reconciler.evidence.store.lake import Lake, UnitContent
from reconciler.evidence.store.manifest import Unit
from reconciler.usage.samples import DAY_MS, Cadence, start_of
from reconciler.usage.tables import QUOTA_ENTRY, SNAPSHOT, USAGE_SAMPLE, Table
from tests.bench.harness import say

CLUSTER, STEP_MS, DAYS = "bench", 30_000, 14
FIRST = dt.date(2026, 11, 1)
PER_DAY = DAY_MS // STEP_MS


def _table(table: Table, rows: int, **columns: object) -> pa.Table:
    """Columns of arrays, or of one value for all rows; missing columns are empty."""
    schema = arrow_tables.schema(table)
    empty: dict[pa.DataType, object] = {pa.string(): "", pa.bool_(): True}
    arrays = []
    for field in schema:
        value = columns.get(field.name, None if field.nullable else empty.get(field.type, 0))
        plain = value if isinstance(value, (np.ndarray, pa.Array)) else [value] * rows
        arrays.append(pa.array(plain, field.type))
    return pa.table(arrays, schema=schema)


def lake(folder: Path, rows: int) -> int:
    """A cluster whose users all have limits that change. Returns the number of samples."""
    into = Lake(opened(str(folder), create=True), clock=SystemClock(), run_id="bench")
    users = max(1, rows // (DAYS * PER_DAY))
    draw = np.random.default_rng(1)
    for number in range(DAYS):
        day = FIRST + dt.timedelta(days=number)
        count = users * PER_DAY
        new_table = _table(
            USAGE_SAMPLE,
            count,
            cluster_id=CLUSTER,
            quota_type="produce",
            group_kind="user",
            user=pa.array(
                [f"user-{user_number}" for user_number in range(users) for _ in range(PER_DAY)]
            ),
            broker_id="1",
            ts_ms=np.tile(start_of(day) + np.arange(PER_DAY) * STEP_MS, users),
            dt_ms=STEP_MS,
            rate_units=draw.integers(0, 10_000_000, count),
            throttle_ms=0,
            censored="no",
            day=day,
        )
        pacing = scrape_interval.inputs(Cadence(step_ms=STEP_MS, max_gap_ms=5 * STEP_MS))
        _ = into.commit(
            Unit(table=USAGE_SAMPLE, cluster_id=CLUSTER, day=day),
            UnitContent(rows=new_table, inputs=pacing),
            None,
        )
    look = {
        "cluster_id": CLUSTER,
        "snapshot_id": "look",
        "observed_at_ms": start_of(FIRST),
        "day": FIRST,
    }
    entries = _table(
        QUOTA_ENTRY,
        1,
        **look,
        entity_json='[["user",null]]',
        quota_key="producer_byte_rate",
        value=6e6,
    )
    for table, new_table in (
        (SNAPSHOT, _table(SNAPSHOT, 1, **look, entries=1)),
        (QUOTA_ENTRY, entries),
    ):
        _ = into.commit(
            Unit(table=table, cluster_id=CLUSTER, day=FIRST), UnitContent(rows=new_table), None
        )
    return users * PER_DAY * DAYS


def switch(sizes: list[int], rounds: int) -> None:
    """Both engines on lakes of these sizes, in turn."""
    end = FIRST + dt.timedelta(days=DAYS)
    for size in sizes:
        with tempfile.TemporaryDirectory(prefix="kquota-bench-") as folder:
            say(f"a lake of about {size:,} samples")
            amount = lake(Path(folder) / "lake", size)
            after = Path(folder) / "after.json"
            after.write_text(_after())
            times: dict[str, list[float]] = {"core": [], "spark": []}
            for _ in range(rounds):
                for engine, seconds in times.items():
                    command = [
                        sys.executable,
                        "-m",
                        "reconciler",
                        "spark",
                        "simulate",
                        "--lake",
                        f"{folder}/lake",
                        "--after",
                        str(after),
                        "--from",
                        str(FIRST),
                        "--to",
                        str(end),
                        "--engine",
                        engine,
                        "--memory",
                        "2g",
                        "--format",
                        "json",
                    ]
                    start = time.perf_counter()
                    answer = subprocess.run(command, capture_output=True, text=True, check=False)
                    if answer.returncode:
                        raise SystemExit(
                            f"{engine} ended with {answer.returncode}:\n{answer.stderr[-3000:]}"
                        )
                    seconds.append(time.perf_counter() - start)
                    say(f"  {engine}: {seconds[-1]:.1f} s")
            core, spark = (sorted(each)[len(each) // 2] for each in times.values())
            print(
                f"| switch | {amount:,} rows | core {core:.1f} s | Spark {spark:.1f} s | {core / spark:.2f} |",
                flush=True,
            )


def _after() -> str:
    from reconciler.codecs.state import state_text
    from reconciler.quota.entity import DEFAULT, entity
    from reconciler.quota.keys import Key
    from reconciler.quota.state import QuotaState

    state = QuotaState().with_values([(entity(user=DEFAULT), Key.PRODUCER_BYTE_RATE, 5e6)])
    return state_text(state, cluster_id=CLUSTER, taken_at="2026-11-15T00:00:00Z")
