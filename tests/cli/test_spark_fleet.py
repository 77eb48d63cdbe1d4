"""`kquota spark resolve`, `plan` and `history`: from snapshots and manifests on disk to rows, exit codes and files."""

import json
from pathlib import Path

import pytest

from reconciler.app.recorded_use.fleet_inputs import fleet_inputs
from reconciler.app.recorded_use.selection import ClusterSelection
from reconciler.cli.framework.console import Console
from reconciler.cli.framework.exit_codes import ExitCode
from reconciler.cli.spark.fleet import show_fleet
from reconciler.cli.spark.report_output import ReportOutput
from reconciler.codecs.state import state_document
from reconciler.errors import ManifestErrors, UsageError
from reconciler.evidence.spark.fleet import plan as fleet_plan
from reconciler.evidence.spark.jobs.plan import violations
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.planner.guards import Guards
from reconciler.quota.state import QuotaState, limits_of
from reconciler.render.json_values import dump
from reconciler.usage.reports.fleet import ClusterTotals, ConflictRow, FleetReport
from tests.cli.conftest import Run

PROJECT = """
apiVersion: kafka-quotas.io/v1alpha1
kind: QuotaProject
spec: {manifests: [quotas]}
---
apiVersion: kafka-quotas.io/v1alpha1
kind: QuotaCluster
metadata: {name: prod}
spec: {bootstrapServers: "localhost:9092", expectedClusterId: c1}
---
apiVersion: kafka-quotas.io/v1alpha1
kind: QuotaCluster
metadata: {name: test}
spec: {bootstrapServers: "localhost:9092", expectedClusterId: c2}
"""
QUOTA = """
apiVersion: kafka-quotas.io/v1alpha1
kind: ClientQuota
metadata: {{name: {name}, namespace: team}}
spec:
  clusterRef: {{name: prod}}
  entity: {{user: {{name: alice}}}}
  limits: {{producerByteRate: {value}}}
"""


def project(folder: Path, **quotas: str) -> ClusterSelection:
    (folder / "kquota.yaml").write_text(PROJECT)
    (folder / "quotas").mkdir()
    for name, text in quotas.items():
        (folder / "quotas" / f"{name}.yaml").write_text(text)
    return ClusterSelection(project=folder / "kquota.yaml", every=True)


def test_documents_records_and_rules_of_every_cluster_are_read(tmp_path: Path) -> None:
    inputs = fleet_inputs(
        Console.of_process({}), project(tmp_path, a=QUOTA.format(name="a", value="10Mi"))
    )
    assert sorted(inputs) == ["c1", "c2"]
    assert inputs["c1"].desired.pair_count == 1
    assert inputs["c2"].desired.pair_count == 0
    assert inputs["c1"].owned.cluster_id == "c1"
    assert not inputs["c1"].rules.removals_known


def test_problems_of_shared_files_are_reported_once(tmp_path: Path) -> None:
    selection = project(tmp_path, a=QUOTA.format(name="a", value="-1"))
    with pytest.raises(ManifestErrors) as caught:
        fleet_inputs(Console.of_process({}), selection)
    assert len(caught.value.problems) == 1


def test_a_cluster_without_a_project_has_no_documents_for_a_plan() -> None:
    with pytest.raises(UsageError, match="no manifests are configured for c9"):
        fleet_inputs(Console.of_process({}), ClusterSelection(ids=("c9",)))


CONFLICT = ConflictRow(
    cluster_id="c1",
    entity_json='[["user","a"]]',
    quota_key="producer_byte_rate",
    value=1.0,
    document="a",
    path="b",
    line=1,
)
REFUSED = ClusterTotals(cluster_id="c1", look_ms=0, violations=("no",))


@pytest.mark.parametrize(
    ("report", "code"),
    [
        (FleetReport(about="plan"), ExitCode.DONE),
        (FleetReport(about="plan", clusters=(REFUSED,)), ExitCode.REFUSED),
        (FleetReport(about="plan", clusters=(REFUSED,), conflicts=(CONFLICT,)), ExitCode.ERROR),
    ],
)
def test_the_exit_code_of_conflicts_takes_precedence_over_that_of_guards(
    tmp_path: Path, report: FleetReport, code: ExitCode
) -> None:
    path = tmp_path / "plan.md"
    showing = ReportOutput(output="markdown", out_path=path, most=5)
    assert show_fleet(Console.of_process({}), report, showing) is code
    assert path.read_text().startswith("**")


def test_the_guard_of_defaults_names_the_setting_that_allows_them() -> None:
    sums = dict.fromkeys((*fleet_plan.TOTALS, "owned_pairs"), 0)
    sums |= {"documents": 1, "desired_pairs": 1, "on_defaults": 2}
    (text,) = violations(sums, Guards())
    assert text == (
        "2 changes on default entities affect every client without a more specific quota;"
        " guards.protectDefaults: false allows it"
    )
    assert violations(sums, Guards(protect_defaults=False)) == ()


@pytest.mark.integration
@pytest.mark.usefixtures("spark")
def test_a_plan_a_resolution_and_a_history_are_made_from_snapshots(
    kquota: Run, tmp_path: Path
) -> None:
    selection = project(tmp_path, a=QUOTA.format(name="a", value="10Mi"))
    lake = str(tmp_path / "lake")
    looks = []
    for at, value in (("2026-11-01T00:00:00Z", 5_000_000.0), ("2026-11-02T00:00:00Z", 6_000_000.0)):
        state = QuotaState(
            limits={entity(user="alice"): limits_of({Key.PRODUCER_BYTE_RATE: value})}
        )
        path = tmp_path / f"{value}.json"
        path.write_text(dump(state_document(state, cluster_id="c1", taken_at=at)))
        looks += ["--snapshot", str(path)]
    where = ["--lake", lake, "--cluster", "prod", "--project", str(selection.project)]
    filled = kquota("spark", "ingest", *where, *looks, "--step", "30s")
    assert filled.code == 0, filled.err
    done = kquota("spark", "plan", *where, "--at", "2026-11-03", "--format", "json")
    assert done.code == 0, done.err
    (row,) = json.loads(done.out)["planned"]
    assert (row["cause"], row["before"], row["after"], row["document"]) == (
        "Takeover",
        6_000_000,
        10 * 2**20,
        "team/a",
    )
    clients = tmp_path / "clients.csv"
    clients.write_text("user,client_id\nalice,app\nbob,\n")
    done = kquota(
        "spark",
        "resolve",
        *where,
        "--to",
        "2026-11-03",
        "--principals",
        str(clients),
        "--format",
        "json",
    )
    assert done.code == 0, done.err
    document = json.loads(done.out)
    assert {
        (row["user"], row["value"])
        for row in document["effective"]
        if row["quota_key"] == "producer_byte_rate"
    } == {("alice", 6_000_000), ("bob", None)}
    assert document["dead"] == []
    done = kquota(
        "spark", "history", *where, "--from", "2026-11-01", "--to", "2026-11-03", "--format", "json"
    )
    assert done.code == 0, done.err
    causes = [(row["cause"], row["after"]) for row in json.loads(done.out)["changed"]]
    assert sorted(causes) == [
        ("drift-external", 6_000_000),
        ("first-seen", 5_000_000),
        ("manifest-ahead", 10 * 2**20),
    ]
