"""`kquota usage recommend`: limits from a lake, documents, pinned limits unchanged, lack of evidence reported."""

import json
from pathlib import Path

import pytest

from reconciler.evidence.store import recorded_window
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.state import QuotaState
from reconciler.usage.recommendation.limit_sizes import SILVER
from reconciler.usage.samples import DAY_MS, Cadence, Censored, QuotaType, day_of
from reconciler.usage.tables import RECOMMENDATION, TARGET_UP, USAGE_SAMPLE
from tests.cli.conftest import Run
from tests.evidence.analysis import lakes, replays
from tests.usage.recorded import SizingCase
from tests.usage.recorded import recommend as of_core
from tests.usage.reference import Sample

CLUSTER = "4L6g3nShT-eMCtK--X86sw"
BEGIN = 1_760_054_400_000 // DAY_MS * DAY_MS
DAYS = 21
STEP = 300_000
WINDOW = ("--from", "2025-10-10", "--to", "2025-10-31")
PROJECT = f"""apiVersion: kafka-quotas.io/v1alpha1
kind: QuotaProject
spec:
  manifests: [quotas]
---
apiVersion: kafka-quotas.io/v1alpha1
kind: QuotaCluster
metadata: {{name: prod}}
spec:
  bootstrapServers: nowhere:9092
  expectedClusterId: {CLUSTER}
"""
QUOTA = """---
apiVersion: kafka-quotas.io/v1alpha1
kind: ClientQuota
metadata: {{name: {name}, labels: {labels}}}
spec:
  clusterRef: {{name: prod}}
  entity: {{user: {{name: {name}}}}}
  limits: {{producerByteRate: 100000, requestPercentage: 50}}
"""


def _project(folder: Path, text: str) -> None:
    (folder / "quotas").mkdir(exist_ok=True)
    (folder / "kquota.yaml").write_text(PROJECT)
    (folder / "quotas" / "all.yaml").write_text(text)


def _series(user: int, broker: int, days: int) -> list[Sample]:
    """Samples every five minutes, with a daily cycle and rare spikes; whole numbers of a formula."""
    samples = []
    for n in range(days * DAY_MS // STEP):
        wave = 1 + (n // 144) % 2
        rate = 1000 * (user + 1) * wave + n * 7919 % 701 + (20_000 if n % 2003 == broker else 0)
        samples.append(Sample(BEGIN + n * STEP + 7, STEP, rate, 0, Censored.NO))
    return samples


@pytest.mark.integration
@pytest.mark.usefixtures("spark")
def test_recommendations_of_a_lake_equal_those_of_the_core_and_are_written_into_documents(
    kquota: Run, folder: Path
) -> None:
    users = {"ann": DAYS, "bea": DAYS, "cy": 5}
    series = {
        (user, str(broker)): _series(number, broker, days)
        for number, (user, days) in enumerate(users.items())
        for broker in (1, 2)
    }
    into = lakes.lake(folder / "lake")
    state = QuotaState().with_values(
        [(entity(user=user), Key.PRODUCER_BYTE_RATE, 100_000.0) for user in users]
    )
    replays.looked(into, CLUSTER, state, BEGIN + 5)
    by_day: dict[object, list[dict[str, object]]] = {}
    for (user, broker), samples in series.items():
        for sample in samples:
            by_day.setdefault(day_of(sample.ts_ms), []).append(
                {
                    "quota_type": "produce",
                    "group_kind": "user",
                    "user": user,
                    "broker_id": broker,
                    "ts_ms": sample.ts_ms,
                    "dt_ms": sample.dt_ms,
                    "rate_units": sample.rate_units,
                    "throttle_ms": 0,
                    "censored": "no",
                }
            )
    pacing = recorded_window.cadence_inputs(Cadence(step_ms=STEP, max_gap_ms=STEP))
    for on, rows in by_day.items():
        replays.commit(into, USAGE_SAMPLE, CLUSTER, on, rows, **pacing)
        up = [{"broker_id": "1", "ts_ms": row["ts_ms"], "dt_ms": STEP} for row in rows[:288]]
        replays.commit(into, TARGET_UP, CLUSTER, on, [dict(row) for row in up])
    _project(
        folder,
        QUOTA.format(name="ann", labels="{team: payments}")
        + QUOTA.format(name="bea", labels="{kafka-quotas.io/sizing: pinned}")
        + QUOTA.format(name="cy", labels="{}"),
    )
    ran = kquota(
        "usage", "recommend", "--lake", folder / "lake", "--out", "new", *WINDOW, "--format", "json"
    )
    assert ran.code == 0, ran.err
    recommendations = {row["user"]: row for row in json.loads(ran.out)["recommendations"]}
    for user in users:
        case = SizingCase(
            kind=QuotaType.PRODUCE,
            from_ms=BEGIN,
            to_ms=BEGIN + DAYS * DAY_MS,
            max_gap_ms=STEP,
            series={broker: samples for (who, broker), samples in series.items() if who == user},
            current=100_000,
            pinned=user == "bea",
        )
        expected = of_core(case, SILVER)
        row = recommendations[user]
        assert (row["advice"], row["target_units"], row["needed_units"], row["upper_units"]) == (
            str(expected.advice),
            expected.target_units,
            expected.needed_units,
            expected.upper_units,
        )
    assert [recommendations[user]["advice"] for user in users] == ["change", "keep", "insufficient"]
    assert len(lakes.rows_of(into, RECOMMENDATION)) == 3
    text = (folder / "new" / "prod.yaml").read_text()
    assert "name: ann" in text
    assert "bea" not in text
    assert f"producerByteRate: {recommendations['ann']['target_units']}" in text
    assert "requestPercentage: 50" in text  # other fields of the document stay
    assert "team: payments" in text
    (folder / "quotas" / "all.yaml").write_text(
        "".join(
            QUOTA.format(name=user, labels="{kafka-quotas.io/sizing: pinned}") for user in users
        )
    )
    again = kquota("usage", "recommend", "--lake", folder / "lake", "--out", "new", *WINDOW)
    assert again.code == 0, again.err
    assert "removed new/prod.yaml: no recommendations remain" in again.err
    assert not (folder / "new" / "prod.yaml").exists()
