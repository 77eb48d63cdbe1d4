"""Labels of documents apply only to their own cluster when several clusters are simulated or sized together."""

import json
from pathlib import Path

from reconciler.evidence.store import recorded_window
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.state import QuotaState
from reconciler.usage.samples import DAY_MS, Cadence, day_of
from reconciler.usage.tables import TARGET_UP, USAGE_SAMPLE
from tests.cli.conftest import Run
from tests.evidence.analysis import lakes, replays

PROD, STAGING = "4L6g3nShT-eMCtK--X86sw", "5M7h4oTiU-fNDuL--Y97tx"
BEGIN = 1_760_054_400_000 // DAY_MS * DAY_MS
STEP = 60_000
ALICE = entity(user="alice")
BEFORE = QuotaState().with_values([(ALICE, Key.PRODUCER_BYTE_RATE, 2000.0)])
CLUSTER = """---
apiVersion: kafka-quotas.io/v1alpha1
kind: QuotaCluster
metadata: {{name: {name}}}
spec: {{bootstrapServers: "nowhere:9092", expectedClusterId: {id}}}
"""
PROJECT = """apiVersion: kafka-quotas.io/v1alpha1
kind: QuotaProject
spec:
  manifests: [quotas]
  simulate: {tiers: {strict: {newThrottledPerDay: 1m}}}
"""
QUOTA = """---
apiVersion: kafka-quotas.io/v1alpha1
kind: ClientQuota
metadata: {{name: alice, labels: {labels}}}
spec: {{clusterRef: {{name: {cluster}}}, entity: {{user: {{name: alice}}}}, limits: {{producerByteRate: 500}}}}
"""


def test_a_tier_label_of_one_cluster_does_not_apply_to_another(kquota: Run, folder: Path) -> None:
    into = lakes.lake(folder / "lake")
    for cluster_id in (PROD, STAGING):
        replays.looked(into, cluster_id, BEFORE, BEGIN + 5)
        rows = [
            {
                "quota_type": "produce",
                "group_kind": "user",
                "user": "alice",
                "broker_id": "1",
                "ts_ms": BEGIN + n * STEP,
                "dt_ms": STEP,
                "rate_units": 1000 if n < 60 else 10,
                "throttle_ms": 0,
                "censored": "no",
            }
            for n in range(DAY_MS // STEP)
        ]
        pacing = recorded_window.cadence_inputs(Cadence(step_ms=STEP, max_gap_ms=5 * STEP))
        replays.commit(into, USAGE_SAMPLE, cluster_id, day_of(BEGIN), rows, **pacing)
        up = [{"broker_id": "1", "ts_ms": row["ts_ms"], "dt_ms": STEP} for row in rows]
        replays.commit(into, TARGET_UP, cluster_id, day_of(BEGIN), [dict(row) for row in up])
    clusters = CLUSTER.format(name="prod", id=PROD) + CLUSTER.format(name="staging", id=STAGING)
    (folder / "kquota.yaml").write_text(PROJECT + clusters)
    (folder / "quotas").mkdir()
    command = (
        "usage",
        "simulate",
        "--lake",
        folder / "lake",
        "--all",
        "--from",
        "2025-10-10",
        "--to",
        "2025-10-11",
        "--engine",
        "local",
        "--format",
        "json",
    )
    for strict in ("prod", "staging"):
        labels = {"prod": "{}", "staging": "{}", strict: "{kafka-quotas.io/tier: strict}"}
        (folder / "quotas" / "all.yaml").write_text(
            "".join(QUOTA.format(cluster=name, labels=labels[name]) for name in ("prod", "staging"))
        )
        ran = kquota(*command)
        assert ran.code == 3, ran.err
        simulation = json.loads(ran.out)["simulation"]
        assert {row["verdict"] for row in simulation["rows"]} == {"worse"}
        refused = {
            (breach["row"]["cluster_id"], breach["tier"]) for breach in simulation["breaches"]
        }
        assert refused == {(PROD if strict == "prod" else STAGING, "strict")}
