"""The command line on real brokers: ten thousand documents in one apply, and several clusters in one command."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.bench import documents
from tests.servers import raw_quotas
from tests.servers.fault_proxy import in_front_of
from tests.servers.processes import HANG_SECONDS

pytestmark = pytest.mark.integration

KQUOTA = Path(sys.executable).with_name("kquota")
DESCRIBE, ALTER = 48, 49
PROJECT = """\
apiVersion: kafka-quotas.io/v1alpha1
kind: QuotaProject
spec:
  manifests: [quotas]
"""
CLUSTER = """\
---
apiVersion: kafka-quotas.io/v1alpha1
kind: QuotaCluster
metadata:
  name: {name}
spec:
  bootstrapServers: {bootstrap}
"""
DOCUMENT = """\
apiVersion: kafka-quotas.io/v1alpha1
kind: ClientQuota
metadata:
  name: alice
  namespace: team
spec:
  clusterRef:
    name: {name}
  entity:
    user:
      name: alice
  limits:
    producerByteRate: {rate}
"""


def kquota(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    environment = {name: value for name, value in os.environ.items() if name != "CI"}
    return subprocess.run(
        [KQUOTA, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
        stdin=subprocess.DEVNULL,
        env=environment | {"NO_COLOR": "1"},
    )


def is_full(frame: bytes) -> bool:
    """Whether a flexible describe requests everything: no component, not strict, no tags."""
    return frame.endswith(b"\x01\x00\x00")


def test_ten_thousand_documents_are_applied_in_few_requests_and_verified(
    empty_kafka, tmp_path: Path
) -> None:
    cluster = empty_kafka("4.3.1", heap_megabytes=768)
    documents.write_manifests(tmp_path / "quotas")
    with in_front_of(cluster) as proxies:
        (proxy,) = proxies.values()
        text = PROJECT + CLUSTER.format(name="bench", bootstrap=f"127.0.0.1:{proxy.port}")
        (tmp_path / "kquota.yaml").write_text(text, encoding="utf-8")
        applied = kquota(tmp_path, "apply", "--yes")
        assert applied.returncode == 0, applied.stdout + applied.stderr
        assert "30,000 to create on 10,000 entities" in applied.stdout
        assert "30,000 of 30,000 changes applied and shown by the brokers" in applied.stdout
        sent = Counter[str]()
        for request in proxy.requests:
            if request.api_key == ALTER:
                sent["alter" if request.writes else "validate-only"] += 1
            elif request.api_key == DESCRIBE:
                sent["full describe" if is_full(request.frame) else "poll"] += 1
        assert sent["validate-only"] <= 16
        assert sent["alter"] <= 16
        # One before the changes; a broker that shows them late is described again.
        assert 2 <= sent["full describe"] <= 16
        again = kquota(tmp_path, "plan", "--detailed-exitcode")
        assert again.returncode == 0, again.stdout
        assert "Nothing to do: 30,000 declared limits in sync." in again.stdout
    raw_quotas.clear(cluster.port())


def test_one_command_applies_every_cluster_of_a_project(empty_kafka, tmp_path: Path) -> None:
    brokers = {"old": empty_kafka("3.9.1"), "new": empty_kafka("4.4.0")}
    (tmp_path / "quotas").mkdir()
    text = PROJECT
    for number, (name, cluster) in enumerate(brokers.items()):
        text += CLUSTER.format(name=name, bootstrap=cluster.bootstrap())
        document = DOCUMENT.format(name=name, rate=f"{number + 1}Mi")
        (tmp_path / "quotas" / f"{name}.yaml").write_text(document, encoding="utf-8")
    (tmp_path / "kquota.yaml").write_text(text, encoding="utf-8")
    applied = kquota(tmp_path, "apply", "--all", "--yes")
    assert applied.returncode == 0, applied.stdout + applied.stderr
    assert kquota(tmp_path, "plan", "--all", "--detailed-exitcode").returncode == 0
    for rate, (name, cluster) in enumerate(brokers.items(), start=1):
        process = kquota(tmp_path, "describe", "--cluster", name, "--format", "json")
        assert f"{rate * 1_048_576}" in json.dumps(json.loads(process.stdout))
        raw_quotas.clear(cluster.port())
    drifted = kquota(tmp_path, "drift", "--all", "--detailed-exitcode")
    assert drifted.returncode == 2, drifted.stdout + drifted.stderr
