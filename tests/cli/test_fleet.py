"""`--all`: clusters at the same time, independent failures, one confirmation, one summary."""

import json
import socket
from collections.abc import Iterable, Iterator

import pytest

from reconciler.sandbox import Fault, SandboxSettings
from reconciler.sandbox.broker_rules.alterations import BrokerFailure
from reconciler.sandbox.faults import Refuse
from tests.cli.brokers import SandboxThread
from tests.cli.projects import CLUSTER, PROJECT, manifests, quota

NAMES = ("gamma", "beta", "alpha")


@pytest.fixture
def fleet(folder) -> Iterator[dict[str, SandboxThread]]:
    """Three clusters; a document for each."""
    running = {name: SandboxThread(SandboxSettings(cluster_id=f"{name:A<22}")) for name in NAMES}
    for sandbox in running.values():
        sandbox.__enter__()
    write(folder, {name: sandbox.bootstrap for name, sandbox in running.items()})
    yield running
    for sandbox in running.values():
        sandbox.stop()


BRIEF = "  properties: {default.api.timeout.ms: 500, request.timeout.ms: 500}\n"


def write(folder, bootstrap: dict[str, str], unanswered: Iterable[str] = ()) -> None:
    """Write the project; calls to the unanswered clusters, and only to them, end soon."""
    clusters = [
        CLUSTER.format(name=name, bootstrap=at) + (BRIEF if name in unanswered else "")
        for name, at in bootstrap.items()
    ]
    (folder / "kquota.yaml").write_text("---\n".join([PROJECT, *clusters]))
    manifests(folder, *(quota(f"user-{name}", cluster=name) for name in bootstrap))


def stop(folder, fleet: dict[str, SandboxThread], *names: str) -> None:
    """Stop clusters; a short time limit for all would also apply to those that answer."""
    write(folder, {name: sandbox.bootstrap for name, sandbox in fleet.items()}, names)
    for name in names:
        fleet[name].stop()


def summary(text: str) -> list[list[str]]:
    """The rows of the final table, without durations."""
    lines = text[text.index("CLUSTER") :].splitlines()
    return [line.split()[:-1] for line in lines[1 : 1 + len(NAMES)]]


def test_plans_of_all_clusters_are_printed_in_the_order_of_the_project_with_a_summary(
    fleet, kquota
):
    ran = kquota("plan", "--all")
    assert ran.code == 0
    assert [line for line in ran.out.splitlines() if line.startswith("== ")] == [
        "== gamma",
        "== beta",
        "== alpha",
    ]
    assert summary(ran.out) == [[name, "ok", "1", "0", "0"] for name in NAMES]
    assert "3 clusters: 3 ok; 3 changes, 0 drifted" in ran.out


def test_stop_on_error_writes_nothing_unless_every_cluster_has_a_plan(fleet, folder, kquota):
    stop(folder, fleet, "beta")
    ran = kquota("apply", "--all", "--yes", "--stop-on-error")
    assert ran.code == 1
    assert "nothing was written to any cluster: no plan, or a refused one, for beta" in ran.err
    assert summary(ran.out) == [
        ["gamma", "ok", "0", "0", "0"],
        ["beta", "unreachable", "-", "-", "-"],
        ["alpha", "ok", "0", "0", "0"],
    ]
    assert not any(fleet[name].values() for name in ("alpha", "gamma"))


def test_a_run_that_writes_to_no_cluster_prints_a_document_without_outcomes(fleet, folder, kquota):
    stop(folder, fleet, "beta")
    words = ("apply", "--all", "--yes", "--format", "json")
    ran = kquota(*words, "--stop-on-error")
    assert ran.code == 1
    assert json.loads(ran.out) == {"format": 1, "kind": "kquota-outcomes", "outcomes": []}


def test_a_refused_cluster_exits_3_and_the_others_are_written(fleet, folder, kquota):
    documents = [quota(f"user-{name}", cluster=name) for name in ("alpha", "gamma")]
    manifests(folder, *documents, quota("any", entity="{user: {default: true}}", cluster="beta"))
    ran = kquota("apply", "--all", "--yes")
    assert ran.code == 3
    assert summary(ran.out)[1][:2] == ["beta", "refused"]
    assert [bool(sandbox.values()) for sandbox in fleet.values()] == [True, False, True]


def test_a_failed_cluster_beside_a_refused_one_exits_1_with_the_table_of_all(fleet, folder, kquota):
    stop(folder, fleet, "alpha", "gamma")
    manifests(folder, quota("any", entity="{user: {default: true}}", cluster="beta"))
    ran = kquota("apply", "--all", "--yes")
    assert ran.code == 1
    assert [row[:2] for row in summary(ran.out)] == [
        ["gamma", "unreachable"],
        ["beta", "refused"],
        ["alpha", "unreachable"],
    ]


def labelled(folder, fleet: dict[str, SandboxThread]) -> None:
    """A project in which alpha and beta are in Europe, and beta is large."""
    write(folder, {name: sandbox.bootstrap for name, sandbox in fleet.items()})
    text = (folder / "kquota.yaml").read_text()
    groups = """\
  clusterGroups:
    - {name: europe, clusters: [alpha, beta], labels: {region: eu}}
    - {name: large, clusters: [beta], labels: {size: large}}
"""
    (folder / "kquota.yaml").write_text(text.replace(PROJECT, PROJECT + groups))
    selecting = quota("alice").replace(
        "clusterRef: {name: prod}",
        "clusterSelector: {matchLabels: {region: eu}}\n"
        "  clusterLimits:\n"
        "    - {clusterSelector: {matchLabels: {size: large}}, limits: {producerByteRate: 20Mi}}",
    )
    manifests(folder, selecting)


def test_one_document_is_applied_to_every_cluster_that_it_selects(fleet, folder, kquota):
    labelled(folder, fleet)
    plan = json.loads(kquota("plan", "--all", "--format", "json").out)
    rows = {document["cluster"]: document["plan"]["changes"] for document in plan["plans"]}
    assert rows["gamma"] == []
    ((alpha,), (beta,)) = rows["alpha"], rows["beta"]
    assert (alpha["after"], alpha["selection"], alpha["line"]) == (10485760, "region=eu", 12)
    assert (beta["after"], beta["line"]) == (20971520, 10)
    assert beta["selection"] == "region=eu; clusterLimits[0] size=large"
    ran = kquota("apply", "--all", "--yes")
    assert ran.code == 0
    assert "selected by region=eu; clusterLimits[0] size=large" in ran.out
    assert [sandbox.values() for sandbox in fleet.values()] == [
        {},
        {(("user", "alice"),): {"producer_byte_rate": 20971520.0}},
        {(("user", "alice"),): {"producer_byte_rate": 10485760.0}},
    ]
    assert kquota("plan", "--all", "--detailed-exitcode").code == 0
    assert kquota("drift", "--all").code == 0
    checked = json.loads(kquota("validate", "--format", "json").out)
    assert (checked["documents"], checked["findings"]) == (1, [])


def test_addresses_alone_have_no_labels(fleet, folder, kquota):
    labelled(folder, fleet)
    (folder / "kquota.yaml").unlink()
    ran = kquota("plan", "--bootstrap-server", fleet["alpha"].bootstrap, "quotas")
    assert ran.code == 1
    assert (
        "team/alice selects clusters by their labels, and only a project file has labels" in ran.err
    )
    checked = kquota("validate", "quotas")
    assert checked.code == 0, checked.err


def test_doctor_of_all_clusters(fleet, folder, kquota):
    stop(folder, fleet, "alpha")
    ran = kquota("doctor", "--all")
    assert ran.code == 1
    assert [row[:2] for row in summary(ran.out)] == [
        ["gamma", "ok"],
        ["beta", "ok"],
        ["alpha", "unreachable"],
    ]


def test_a_comment_begins_with_the_table_of_clusters(fleet, kquota):
    lines = kquota("plan", "--all", "--format", "markdown").out.splitlines()
    assert lines[0] == "**3 clusters: 3 ok; 3 changes, 0 drifted**"
    assert lines[4].startswith("| `gamma` | ok | 1 |")


def test_hung_clusters_end_together_at_the_deadline(fleet, folder, kquota):
    with (
        socket.create_server(("127.0.0.1", 0)) as deaf,
        socket.create_server(("127.0.0.1", 0)) as dumb,
    ):
        address = {name: sandbox.bootstrap for name, sandbox in fleet.items()}
        for name, server in (("alpha", deaf), ("beta", dumb)):
            address[name] = f"127.0.0.1:{server.getsockname()[1]}"
        write(folder, address, ("alpha", "beta"))
        ran = kquota("plan", "--all", "--format", "json")
    assert ran.code == 1
    assert [row["result"] for row in json.loads(ran.out)["summary"]] == [
        "ok",
        "unreachable",
        "unreachable",
    ]


def test_a_rejected_write_exits_1_with_its_own_row(fleet, kquota):
    failure = BrokerFailure(code=42, message="planted")
    fleet["beta"].fail(
        Fault(effect=Refuse(failure=failure, names=(("user", "user-beta"),)), api=49, times=-1)
    )
    ran = kquota("apply", "--all", "--yes", "--validate", "none")
    assert ran.code == 1
    assert summary(ran.out) == [
        ["gamma", "ok", "1", "0", "0"],
        ["beta", "failed", "0", "0", "1"],
        ["alpha", "ok", "1", "0", "0"],
    ]
    assert "3 clusters: 2 ok, 1 failed; 2 changes, 0 drifted" in ran.out
    assert [bool(sandbox.values()) for sandbox in fleet.values()] == [True, False, True]
