"""From a real Prometheus that scraped a real broker to a simulated change, and the measured effect on a broker.

Two brokers get the same demand at the same time: one counts without limits, the other has the limits of the manifest.
Only the first is ingested. The project states how large the fetches of the consumers are. Two minutes of demand
instead of four and a half (test_real_brokers.py has those).
"""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.recording import broker_run
from tests.recording.runs import Group, Run
from tests.recording.truth import DELAY_BOUND, TIME_BOUND, Way, truth
from tests.servers import exporter
from tests.servers.kafka import KafkaCluster
from tests.servers.processes import HANG_SECONDS
from tests.servers.prometheus import Prometheus
from tests.servers.properties import Listener

PHASE_SECONDS = 130
ROOT = Path(__file__).parents[2]
RUN = Run(
    number=90,
    version="4.4.0",
    level="user",
    seconds=75,
    groups=(
        *(
            Group(
                name=f"produce-{shape}",
                kind="produce",
                shape=shape,
                mean=90_000,
                record=record,
                connections=connections,
                target_delay=30.0,
            )
            for shape, record, connections in (
                ("steady", 4_096, 1),
                ("ramp", 8_192, 2),
                ("bursts", 4_096, 1),
            )
        ),
        *(
            Group(
                name=f"fetch-{shape}",
                kind="fetch",
                shape=shape,
                mean=90_000,
                record=1_024,
                connections=connections,
                target_delay=45.0,
                fetch_bytes=65_536,
                share=0.85,
            )
            for shape, connections in (("steady", 1), ("ramp", 2), ("bursts", 1))
        ),
    ),
)
PROJECT = """\
apiVersion: kafka-quotas.io/v1alpha1
kind: QuotaProject
spec:
  manifests: [quotas]
  simulate: {simulate}
---
apiVersion: kafka-quotas.io/v1alpha1
kind: QuotaCluster
metadata: {{name: {name}}}
spec:
  bootstrapServers: {bootstrap}
  expectedClusterId: {cluster_id}
  policy: Upsert
  guards: {{maxChangeFactor: 1000000000000000}}
  telemetry:
    prometheus: http://127.0.0.1:{port}
    matchers: cluster="{name}"
    scrapeStep: {step}s
    evidenceUri: {folder}/evidence
"""
KEYS = {"produce": "producerByteRate", "fetch": "consumerByteRate"}
LIMIT = """\
apiVersion: kafka-quotas.io/v1alpha1
kind: ClientQuota
metadata: {{name: {name}}}
spec:
  clusterRef: {{name: {cluster}}}
  entity: {{user: {{name: {name}}}}}
  limits: {{{key}: {limit}}}
"""


def kquota(folder: Path, *words: str, codes: tuple[int, ...] = (0,)) -> str:
    """The output of a command."""
    done = subprocess.run(
        [sys.executable, "-m", "reconciler", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode in codes, done.stdout + done.stderr
    return done.stdout


def ways(phase: broker_run.Phase, group: str) -> list[Way]:
    return [
        Way(due_ms=record.due_ms, took_ms=(record.done_ms or phase.to_ms) - record.due_ms)
        for record in phase.records
        if record.group == group
    ]


def stated() -> str:
    """State how the clients send and fetch, as their owners would."""
    simulate: dict[str, list[dict[str, Any]]] = {"consumers": [], "producers": []}
    for group in RUN.groups:
        clients = {
            "entities": [{"user": {"exact": group.name}}],
            "connections": group.connections,
        }
        if group.kind == "fetch":
            fetch = {"maxPartitionFetchBytes": group.fetch_bytes, "partitions": 1}
            simulate["consumers"].append(clients | fetch | {"batchBytes": group.record + 70})
        else:
            simulate["producers"].append(clients | {"recordBytes": group.record, "linger": "0s"})
    return json.dumps(simulate)


def is_within(forecast: tuple[int, int], true_ms: int, bound: float, machine_ms: int) -> bool:
    """Whether the true time is between both ends of a forecast, with the bound and what the machine may have added."""
    low, high = forecast
    return low <= true_ms * (1 + bound) + machine_ms and high >= true_ms * (1 - bound) - machine_ms


@pytest.mark.integration
def test_the_forecast_of_a_plan_matches_the_later_behaviour_of_a_broker(tmp_path):
    names = ("admin", "feeder", *(group.name for group in RUN.groups))
    users = dict.fromkeys(names, broker_run.PASSWORD)
    options: dict[str, Any] = {
        "listeners": (Listener.PLAINTEXT, Listener.SASL_PLAINTEXT),
        "users": users,
    }
    limits = {group.name: RUN.limit(group) for group in RUN.groups}
    with (
        KafkaCluster(RUN.version, metrics=exporter.SHIPPED, **options) as free,
        KafkaCluster(RUN.version, **options) as limited,
        Prometheus(broker_run.scrape_configuration(free.metrics_port(), 10)) as prometheus,
    ):
        (tmp_path / "quotas").mkdir()
        for name, limit in limits.items():
            key = KEYS[name.partition("-")[0]]
            text = LIMIT.format(name=name, key=key, limit=limit, cluster=broker_run.CLUSTER_LABEL)
            (tmp_path / "quotas" / f"{name}.yaml").write_text(text, encoding="utf-8")
        (tmp_path / "kquota.yaml").write_text(
            PROJECT.format(
                name=broker_run.CLUSTER_LABEL,
                bootstrap=free.bootstrap(),
                cluster_id=free.cluster_id,
                port=prometheus.port,
                step=10,
                folder=tmp_path,
                simulate=stated(),
            ),
            encoding="utf-8",
        )
        wide = broker_run.telemetry_limits(RUN.level)
        broker_run.alter(free.bootstrap(), wide)
        broker_run.alter(
            limited.bootstrap(), [*wide, *broker_run.limits_of(RUN.level, RUN.groups, limits)]
        )
        kquota(
            tmp_path,
            "snapshot",
            "--cluster",
            broker_run.CLUSTER_LABEL,
            "--taken-at",
            "--out",
            "before.json",
        )
        with ThreadPoolExecutor(2) as both:
            halves = [
                both.submit(broker_run.drive, cluster, RUN, "same", PHASE_SECONDS)
                for cluster in (free, limited)
            ]
            unlimited, late = (half.result() for half in halves)
        (tmp_path / "lake").mkdir()
        kquota(
            tmp_path,
            "usage",
            "ingest",
            "--cluster",
            broker_run.CLUSTER_LABEL,
            "--lake",
            "lake",
            "--from",
            "1h",
            "--snapshot",
            "before.json",
            "--previews",
        )
        words = ("--cluster", broker_run.CLUSTER_LABEL, "--format", "json")
        preview = kquota(
            tmp_path,
            "plan",
            *words,
            "--evidence",
            "auto",
            "--require-evidence",
            "--no-inventory",
            codes=(0, 3),
        )
        report = kquota(
            tmp_path,
            "usage",
            "simulate",
            *words,
            "--lake",
            "lake",
            "--from",
            "1h",
            "--engine",
            "local",
            codes=(0, 3),
        )
    plan_rows, report_rows = (json.loads(text)["simulation"]["rows"] for text in (preview, report))
    figures = ("user", "quota_type", "bound", "after_throttled_ms", "after_max_delay_ms")
    assert sorted([row[name] for name in figures] for row in plan_rows) == sorted(
        [row[name] for name in figures] for row in report_rows
    )
    for kind in KEYS:
        rows = {row["user"]: row for row in plan_rows if row["quota_type"] == kind}
        assert rows.keys() == {name for name in limits if name.startswith(kind)}
        assert {row["verdict"] for row in rows.values()} == {"worse"}
        assert {row["answer"] for row in rows.values()} == {"exact"}
        truths = {name: truth(ways(unlimited, name), ways(late, name)) for name in rows}
        # The same records, sent at the same time without limits, show what a busy machine adds. The bounds of a machine that
        # adds nothing are tested with recorded runs, in test_real_brokers.py.
        stalls = [group_truth.machine_ms for group_truth in truths.values()]
        for end, measured, bound, many, machine_ms in (
            ("throttled_ms", "throttled_ms", TIME_BOUND, sum, sum(stalls)),
            ("max_delay_ms", "worst_ms", DELAY_BOUND, max, max(stalls)),
        ):
            low = many(row[f"after_{end}"] for row in rows.values())
            high = many(row[f"worst_{end}"] or row[f"after_{end}"] for row in rows.values())
            true_ms = many(getattr(each, measured) for each in truths.values())
            assert is_within((low, high), true_ms, bound, machine_ms), (rows, truths)
