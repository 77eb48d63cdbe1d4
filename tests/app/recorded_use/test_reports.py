"""`kquota usage client`: from a lake to a page that the team of a client may have."""

import json
from pathlib import Path

import pytest

from reconciler.cli import main
from tests.evidence.analysis.report_lake import build_lake

PROJECT = """
apiVersion: kafka-quotas.io/v1alpha1
kind: QuotaProject
spec: {manifests: [quotas]}
---
apiVersion: kafka-quotas.io/v1alpha1
kind: QuotaCluster
metadata: {name: prod}
spec:
  bootstrapServers: localhost:9092
  expectedClusterId: c1
"""
DOCUMENT = """
apiVersion: kafka-quotas.io/v1alpha1
kind: ClientQuota
metadata: {name: alice-in-production, labels: {team: bob}}
spec:
  clusterRef: {name: prod}
  entity: {user: {name: alice}}
  limits: {producerByteRate: 1000, consumerByteRate: 5000}
"""
DAY = ("--from", "2026-11-01", "--to", "2026-11-02")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kquota.yaml").write_text(PROJECT)
    (tmp_path / "quotas").mkdir()
    (tmp_path / "quotas" / "alice.yaml").write_text(DOCUMENT)
    (tmp_path / "lake").mkdir()
    build_lake(tmp_path / "lake")
    return tmp_path


def client(*words: str) -> int:
    return main.main(["usage", "client", "--lake", "lake", *words])


@pytest.mark.usefixtures("project")
def test_the_answer_names_the_limit_and_the_document_to_change(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert client("--user", "alice", "--at", "2026-11-01T00:03") == 0
    text = capsys.readouterr().out
    assert text.startswith(
        "user=alice: throttled at 2026-11-01 00:03 UTC on broker 1: produce, limit 1 kB/s of user=alice"
    )
    assert "  name: alice-in-production\n" in text
    assert text.endswith("  limits:\n    producerByteRate: 1160\n")
    assert "2026-10-31 23:03 UTC  2026-11-01 01:03 UTC" in text


def test_a_change_in_the_audit_log_is_in_force_from_its_time(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = {
        "v": 1,
        "time": "2026-11-01T00:02:00Z",
        "who": "",
        "commit": "",
        "clusterId": "c1",
        "digest": "",
        "entity": [["user", "alice"]],
        "key": "producer_byte_rate",
        "before": 1_000,
        "after": 900,
        "cause": "",
        "document": "",
        "outcome": "APPLIED",
    }
    log = project / ".kquota" / "audit.jsonl"
    log.parent.mkdir(exist_ok=True)
    log.write_text(json.dumps(line) + "\n")
    assert client("--user", "alice", "--at", "2026-11-01T00:03") == 0
    assert "produce, limit 900 B/s of user=alice" in capsys.readouterr().out


def test_a_page_has_no_name_of_another_client(project: Path) -> None:
    for name in ("page.html", "page.md", "page.json", "page.txt"):
        assert client("--user", "alice", *DAY, "--out", name) == 0
        text = (project / name).read_text()
        assert "alice" in text
        assert not [user for user in ("bob", "carol", "dave") if user in text]


@pytest.mark.usefixtures("project")
def test_a_cluster_without_a_name_gives_no_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert client("--cluster-id", "c1", "--user", "alice", *DAY) == 0
    text = capsys.readouterr().out
    assert "throttled 1 time\n" in text
    assert "ClientQuota" not in text


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((), "specify a client with --user, --client-id or --ip"),
        (("--user", "alice", "--cluster-id", "a", "--cluster-id", "b"), "of one cluster"),
        (("--user", "alice", "--from", "2d", "--to", "3d"), "the window is empty"),
        (("--user", "alice", *DAY, "--at", "2026-11-02"), "--at is outside of the window"),
    ],
)
def test_options_that_name_no_client_cluster_or_time_are_refused(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], reason: str
) -> None:
    assert client(*words) == 1
    assert reason in capsys.readouterr().err
