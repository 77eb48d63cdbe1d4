"""A lake of one cluster, broker and hour, for reports: three users who produce, three limits, one of them unused."""

import datetime as dt
from pathlib import Path

from reconciler.evidence.store import recorded_window
from reconciler.evidence.store.lake import Lake
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.state import QuotaState
from reconciler.usage.samples import Cadence
from reconciler.usage.tables import BROKER_SAMPLE, TARGET_UP, USAGE_SAMPLE
from tests.evidence.analysis import lakes, replays

DAY = dt.date(2026, 11, 1)
BEGIN = 1_793_491_200_000  # that day, in milliseconds
STEP = 30_000
FROM, TO = BEGIN, BEGIN + 86_400_000
PACE = Cadence(step_ms=STEP, max_gap_ms=150_000)
TIMES = [BEGIN + STEP * at for at in range(1, 121)]
RATES = {"alice": 900, "bob": 500, "carol": 5}
LIMITS = {"alice": 1_000, "bob": 10_000, "dave": 700}


def build_lake(folder: Path) -> Lake:
    lake = lakes.lake(folder)
    samples = [
        {
            "quota_type": "produce",
            "group_kind": "user",
            "user": user,
            "broker_id": "1",
            "ts_ms": ts,
            "dt_ms": STEP,
            "rate_units": rate,
            "throttle_ms": 9 if user == "alice" and ts == TIMES[5] else 0,
            "censored": "no",
        }
        for user, rate in RATES.items()
        for ts in TIMES
    ]
    inputs = recorded_window.cadence_inputs(PACE)
    replays.commit(lake, USAGE_SAMPLE, "c1", DAY, samples, counts={"gap": 1}, **inputs)
    moments = [{"broker_id": "1", "ts_ms": ts, "dt_ms": STEP} for ts in TIMES]
    replays.commit(lake, TARGET_UP, "c1", DAY, moments)
    totals = {"bytes_in": 1_500, "replication_in": 200}
    replays.commit(lake, BROKER_SAMPLE, "c1", DAY, [moment | totals for moment in moments])
    limits = [(entity(user=user), Key.PRODUCER_BYTE_RATE, float(LIMITS[user])) for user in LIMITS]
    replays.looked(lake, "c1", QuotaState().with_values(limits), BEGIN, "s")
    return lake
