"""A lake of one cluster, broker and hour, for reports: three users who produce, three limits, one of them unused."""

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa

from reconciler.evidence.store import scrape_interval
from reconciler.evidence.store.files import arrow_tables
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.manifest import Unit
from reconciler.quota.entity import entity
from reconciler.quota.entity_forms import canonical_text
from reconciler.usage.samples import Cadence
from reconciler.usage.tables import (
    BROKER_SAMPLE,
    QUOTA_ENTRY,
    SNAPSHOT,
    TARGET_UP,
    USAGE_SAMPLE,
    Table,
)
from tests.evidence.spark import lakes

DAY = dt.date(2026, 11, 1)
BEGIN = 1_793_491_200_000  # that day, in milliseconds
STEP = 30_000
FROM, TO = BEGIN, BEGIN + 86_400_000
PACE = Cadence(step_ms=STEP, max_gap_ms=150_000)
TIMES = [BEGIN + STEP * at for at in range(1, 121)]
RATES = {"alice": 900, "bob": 500, "carol": 5}
LIMITS = {"alice": 1_000, "bob": 10_000, "dave": 700}


def filled(
    into: Lake, table: Table, rows: list[dict[str, Any]], inputs: dict[str, str] | None = None
) -> None:
    for cluster in {row["cluster_id"] for row in rows}:
        unit = Unit(table=table, cluster_id=cluster, day=DAY)
        cluster_rows = [row for row in rows if row["cluster_id"] == cluster]
        into.commit(
            unit,
            pa.Table.from_pylist(cluster_rows, schema=arrow_tables.schema(table)),
            into.manifest(unit),
            inputs=scrape_interval.inputs(PACE) if table is USAGE_SAMPLE else inputs,
            counts={"gap": 1},
        )


def build_lake(folder: Path) -> Lake:
    lake = lakes.lake(folder)
    common = {"cluster_id": "c1", "day": DAY, "broker_id": "1"}
    filled(
        lake,
        USAGE_SAMPLE,
        [
            {
                **common,
                "quota_type": "produce",
                "group_kind": "user",
                "user": user,
                "client_id": "",
                "ip": "",
                "ts_ms": ts,
                "dt_ms": STEP,
                "rate_units": rate,
                "throttle_ms": 9 if user == "alice" and ts == TIMES[5] else 0,
                "censored": "no",
            }
            for user, rate in RATES.items()
            for ts in TIMES
        ],
    )
    filled(lake, TARGET_UP, [{**common, "ts_ms": ts, "dt_ms": STEP, "up": True} for ts in TIMES])
    filled(
        lake,
        BROKER_SAMPLE,
        [
            {
                **common,
                "ts_ms": ts,
                "dt_ms": STEP,
                "bytes_in": 1_500,
                "bytes_out": None,
                "replication_in": 200,
                "replication_out": None,
                "request_idle_ppm": None,
            }
            for ts in TIMES
        ],
    )
    filled(
        lake,
        SNAPSHOT,
        [
            {
                "cluster_id": "c1",
                "snapshot_id": "s",
                "observed_at_ms": BEGIN,
                "complete": True,
                "entries": 3,
                "day": DAY,
            }
        ],
    )
    filled(
        lake,
        QUOTA_ENTRY,
        [
            {
                "cluster_id": "c1",
                "snapshot_id": "s",
                "observed_at_ms": BEGIN,
                "user_kind": "named",
                "client_kind": "absent",
                "ip_kind": "absent",
                "user": user,
                "client_id": "",
                "ip": "",
                "entity_json": canonical_text(entity(user=user)),
                "quota_key": "producer_byte_rate",
                "value": float(limit),
                "quota_units": limit,
                "value_state": "finite",
                "source": "test",
                "day": DAY,
            }
            for user, limit in LIMITS.items()
        ],
    )
    return lake
