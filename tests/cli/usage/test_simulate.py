"""`kquota usage simulate` of manifests, plans and snapshots on a lake: policy, exit codes, formats, both engines."""

import json
import os
from pathlib import Path

import pytest

from reconciler.codecs.state import state_document
from reconciler.evidence.store import recorded_window
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.state import QuotaState
from reconciler.render.json_values import dump
from reconciler.usage.samples import DAY_MS, Cadence, day_of
from reconciler.usage.tables import IMPACT_ROW, TARGET_UP, USAGE_SAMPLE
from tests.cli.conftest import Run
from tests.evidence.analysis import lakes, replays

CLUSTER = "4L6g3nShT-eMCtK--X86sw"
BEGIN = 1_760_054_400_000 // DAY_MS * DAY_MS
WINDOW = ("--from", "2025-10-10", "--to", "2025-10-12")
STEP = 60_000

PROJECT = f"""apiVersion: kafka-quotas.io/v1alpha1
kind: QuotaProject
spec:
  manifests: [quotas]
  simulate: {{failOn: {{newThrottledPerDay: 10m, maxDelay: 60s}}}}
---
apiVersion: kafka-quotas.io/v1alpha1
kind: QuotaCluster
metadata: {{name: prod}}
spec:
  bootstrapServers: nowhere:9092
  expectedClusterId: {CLUSTER}
"""
QUOTA = """apiVersion: kafka-quotas.io/v1alpha1
kind: ClientQuota
metadata: {{name: alice}}
spec:
  clusterRef: {{name: prod}}
  entity: {{user: {{name: alice}}}}
  limits: {{producerByteRate: {limit}}}
"""


def state(limit: float) -> QuotaState:
    return QuotaState().with_values([(entity(user="alice"), Key.PRODUCER_BYTE_RATE, limit)])


@pytest.fixture
def lake(folder: Path) -> Path:
    """Two days of alice on two brokers under 2,000 bytes/s: busy for an hour a day on the first."""
    place = folder / "lake"
    into = lakes.lake(place)
    replays.looked(into, CLUSTER, state(2000.0), BEGIN + 5)
    for day in range(2):
        rows = [
            {
                "quota_type": "produce",
                "group_kind": "user",
                "user": "alice",
                "broker_id": str(broker),
                "ts_ms": BEGIN + day * DAY_MS + n * STEP,
                "dt_ms": STEP,
                "rate_units": 1000 if broker == 1 and n < 60 else 10,
                "throttle_ms": 0,
                "censored": "no",
            }
            for broker in (1, 2)
            for n in range(DAY_MS // STEP)
        ]
        on = day_of(BEGIN + day * DAY_MS)
        pacing = recorded_window.cadence_inputs(Cadence(step_ms=STEP, max_gap_ms=5 * STEP))
        replays.commit(into, USAGE_SAMPLE, CLUSTER, on, rows, **pacing)
        up = [{"broker_id": row["broker_id"], "ts_ms": row["ts_ms"], "dt_ms": STEP} for row in rows]
        replays.commit(into, TARGET_UP, CLUSTER, on, [dict(row) for row in up])
    return place


def project(folder: Path, limit: int) -> None:
    (folder / "quotas").mkdir(exist_ok=True)
    (folder / "kquota.yaml").write_text(PROJECT)
    (folder / "quotas" / "alice.yaml").write_text(QUOTA.format(limit=limit))


def test_a_harmless_change_exits_0_and_a_change_that_the_policy_refuses_exits_3(
    kquota: Run, folder: Path, lake: Path
) -> None:
    project(folder, 1500)
    fine = kquota("usage", "simulate", "--lake", lake, *WINDOW)
    assert fine.code == 0, fine.err
    assert "alice" in fine.out
    project(folder, 500)
    tight = kquota("usage", "simulate", "--lake", lake, *WINDOW)
    assert tight.code == 3, tight.err
    assert "the policy refuses" in tight.out
    rows = lakes.rows_of(lakes.lake(lake), IMPACT_ROW)
    assert {(row["broker_id"], row["verdict"], row["after_units"]) for row in rows} == {
        ("1", "worse", 500),
        ("2", "same", 500),
    }
    (worse,) = (row for row in rows if row["verdict"] == "worse")
    # An hour at twice the limit needs at most another hour at almost zero, each day: a part of what is recorded is beside
    # the records, and vanishes.
    assert worse["bound"] == "between"
    assert 0 < worse["after_throttled_ms"] < worse["worst_throttled_ms"] < 2 * 7_500_000
    assert worse["worst_throttled_ms"] > 2 * 3_600_000
    assert worse["covered_ms"] == 2 * DAY_MS


def test_a_snapshot_and_a_saved_plan_define_the_proposed_limits(
    kquota: Run, folder: Path, lake: Path
) -> None:
    after = folder / "after.json"
    after.write_text(
        dump(state_document(state(500.0), cluster_id=CLUSTER, taken_at="2025-10-10T00:00:01Z"))
    )
    by_state = kquota(
        "usage", "simulate", "--lake", lake, "--after", after, *WINDOW, "--format", "json"
    )
    assert by_state.code == 0, by_state.err  # without a project there is no policy
    before = folder / "before.json"
    before.write_text(
        dump(state_document(state(2000.0), cluster_id=CLUSTER, taken_at="2025-10-10T00:00:01Z"))
    )
    project(folder, 500)
    saved = kquota(
        "plan", "--offline", "--snapshot", before, "--no-inventory", "--out", "plan.json"
    )
    assert (folder / "plan.json").exists(), saved.err
    by_plan = kquota(
        "usage", "simulate", "--lake", lake, "--plan", "plan.json", *WINDOW, "--format", "json"
    )
    assert by_plan.code == 3, by_plan.err
    rows = [json.loads(ran.out)["simulation"]["rows"] for ran in (by_state, by_plan)]
    assert rows[0] == rows[1]


def test_a_window_without_samples_exits_5_only_where_evidence_is_required(
    kquota: Run, folder: Path, lake: Path
) -> None:
    project(folder, 500)
    early = ("--from", "2025-09-10", "--to", "2025-09-12")
    assert kquota("usage", "simulate", "--lake", lake, *early).code == 0
    ran = kquota("usage", "simulate", "--lake", lake, *early, "--require-evidence")
    assert ran.code == 5
    assert "no samples" in ran.err


def test_contradictory_sources_of_the_proposed_limits_are_refused(
    kquota: Run, folder: Path, lake: Path
) -> None:
    project(folder, 500)
    ran = kquota("usage", "simulate", "quotas", "--lake", lake, "--plan", "plan.json", *WINDOW)
    assert ran.code == 1
    assert "cannot be combined" in ran.err
    ran = kquota("usage", "simulate", "--lake", lake, "--cluster-id", CLUSTER, *WINDOW)
    assert ran.code == 1
    assert "--plan or --after" in ran.err
    missing = kquota("usage", "simulate", "--lake", lake, "--plan", "plan.json", *WINDOW)
    assert missing.code == 1
    assert "plan.json" in missing.err


@pytest.mark.integration
@pytest.mark.usefixtures("spark")
def test_both_engines_print_the_same(kquota: Run, folder: Path, lake: Path) -> None:
    project(folder, 500)
    words = ("usage", "simulate", "--lake", lake, *WINDOW, "--format", "json")
    of_local = kquota(*words, "--engine", "local")
    of_spark = kquota(*words, "--engine", "spark")
    assert (of_local.code, of_spark.code) == (3, 3), of_spark.err
    documents = [json.loads(ran.out) for ran in (of_local, of_spark)]
    for document in documents:
        del document["evidence"][0]["made_ms"]
        del document["simulation"]["evidence"]
    assert documents[0] == documents[1]
    assert os.fspath(lake) in of_local.out
