"""doctor checks everything from the network to the rights; validate checks everything that needs no cluster."""

import json

import pytest

from reconciler.sandbox import (
    READER,
    RECONCILER,
    Authorizer,
    Fault,
    Listener,
    ListenerProtocol,
    SandboxSettings,
)
from reconciler.sandbox.faults import CutBefore
from tests.cli.brokers import SandboxThread
from tests.cli.projects import manifests, project, quota

PROPERTIES = """\
security.protocol=SASL_PLAINTEXT
sasl.mechanism=SCRAM-SHA-256
sasl.username={user}
sasl.password=secret
"""


def checks(ran) -> dict[str, tuple[str, str]]:
    return {
        check["name"]: (check["health"], check["advice"]) for check in json.loads(ran.out)["checks"]
    }


@pytest.fixture
def guarded():
    settings = SandboxSettings(
        nodes=(1, 2),
        listeners=(Listener(name="SASL", protocol=ListenerProtocol.SASL_PLAINTEXT),),
        users={"planner": "secret", "applier": "secret", "nobody": "secret"},
        authorizer=Authorizer(grants={"planner": READER, "applier": RECONCILER}),
        broker_settings={"client.quota.callback.class": "com.example.Own"},
    )
    with SandboxThread(settings) as running:
        yield running


def report_of(kquota, folder, guarded, user: str):
    (folder / "p.properties").write_text(PROPERTIES.format(user=user))
    where = ("--bootstrap-server", guarded.bootstrap, "--command-config", "p.properties")
    return kquota("doctor", *where, "--format", "json", "--timeout", "5s")


def test_missing_rights_are_reported_with_the_command_that_grants_them(kquota, folder, guarded):
    planner = checks(report_of(kquota, folder, guarded, "planner"))
    assert planner["may read"][0] == "ok"
    assert planner["may write"][0] == "warning"
    assert "--operation AlterConfigs" in planner["may write"][1]
    applier = checks(report_of(kquota, folder, guarded, "applier"))
    assert applier["may write"][0] == "ok"
    ran = report_of(kquota, folder, guarded, "nobody")
    assert ran.code == 1
    health, advice = checks(ran)["may read"]
    assert health == "failed"
    assert "DescribeConfigs" in advice


def test_a_custom_callback_causes_a_warning(kquota, folder, guarded):
    assert checks(report_of(kquota, folder, guarded, "planner"))["quota callback"][0] == "warning"
    where = ("--bootstrap-server", guarded.bootstrap, "--command-config", "p.properties")
    assert "com.example.Own" in kquota("resolve", "--user", "a", *where).err


def test_every_bootstrap_address_is_checked_separately(kquota, folder, sandbox):
    ran = kquota(
        "doctor", "--bootstrap-server", f"{sandbox.bootstrap},127.0.0.1:1,nohost.invalid:1"
    )
    assert ran.code == 1
    assert "reach 127.0.0.1:1" in ran.out
    assert "Connection refused" in ran.out
    assert "no address" in ran.out
    assert "broker 1" in ran.out


def test_an_unexpected_cluster_id_is_a_failure(kquota, folder, sandbox):
    project(folder, sandbox.bootstrap, quota("a"), more=f"  expectedClusterId: {'B' * 22}\n")
    ran = kquota("doctor")
    assert ran.code == 1
    assert "B" * 22 in ran.out


def test_policy_sync_without_a_cluster_id_is_told_the_id(kquota, folder, sandbox):
    project(folder, sandbox.bootstrap, quota("a"), more="  policy: Sync\n")
    ran = kquota("doctor")
    assert ran.code == 0
    assert "set expectedClusterId: " in " ".join(ran.out.split())


def test_a_cluster_that_does_not_answer_ends_the_checks(kquota, folder, sandbox):
    sandbox.fail(Fault(effect=CutBefore(), times=-1))
    ran = kquota("doctor", "--bootstrap-server", sandbox.bootstrap, "--timeout", "1s")
    assert ran.code == 1
    assert "answers" in ran.out
    assert "may read" not in ran.out


def test_records_from_the_future_indicate_a_wrong_clock(kquota, folder, sandbox):
    project(folder, sandbox.bootstrap, quota("a"))
    kquota("apply", "--yes")
    path = folder / ".kquota/inventory.json"
    text = path.read_text()
    since = json.loads(text)["clusters"]["A" * 22]["owners"][0][2]
    path.write_text(text.replace(str(since), str(since + 3600)))
    ran = kquota("doctor", "--format", "json")
    assert checks(ran)["clock"][0] == "warning"


def test_an_end_from_the_future_indicates_a_wrong_clock_also_in_a_plan(kquota, folder, sandbox):
    """Documents with an earlier end are over for every machine, so that a plan leaves them out."""
    project(folder, sandbox.bootstrap, quota("a"))
    kquota("apply", "--yes")
    path = folder / ".kquota/inventory.json"
    path.write_text(path.read_text().replace('"ended":0.0', '"ended":4000000000.0'))
    assert checks(kquota("doctor", "--format", "json"))["clock"][0] == "warning"
    (warning,) = json.loads(kquota("plan", "--format", "json").out)["warnings"]
    assert "(spec.until) before 2096-10-02T07:06:40Z declare nothing" in warning


@pytest.mark.parametrize("file", ["kquota", "kquota/outcomes", "kquota/audit.jsonl"])
def test_a_state_folder_that_cannot_be_written_is_a_warning(kquota, folder, sandbox, file):
    """A run as another user, or a container without a volume, leaves it behind: apply then sends nothing."""
    project(folder, sandbox.bootstrap, quota("a"))
    assert checks(kquota("doctor", "--format", "json"))["state folder"][0] == "ok"
    assert not (folder / ".kquota").exists()
    blocked = folder / f".{file}"
    blocked.parent.mkdir(exist_ok=True)
    if file.endswith("audit.jsonl"):
        blocked.mkdir()
    else:
        blocked.write_text("a file where a folder should be")
    ran = kquota("doctor", "--format", "json")
    health, advice = checks(ran)["state folder"]
    assert (health, bool(advice)) == ("warning", True)
    assert f".{file} is not writable" in ran.out


@pytest.mark.parametrize(
    ("mode", "health"), [(0o770, "ok"), (0o707, "warning"), (0o1777, "warning")]
)
def test_a_state_folder_that_every_user_can_write_is_a_warning(
    kquota, folder, sandbox, mode, health
):
    project(folder, sandbox.bootstrap, quota("a"))
    (folder / ".kquota").mkdir()
    (folder / ".kquota").chmod(mode)
    check = checks(kquota("doctor", "--format", "json"))["state folder"]
    assert (check[0], "chmod o-w" in check[1]) == (health, health == "warning")


def test_every_cluster_of_a_project_is_checked(kquota, folder, sandbox):
    project(folder, sandbox.bootstrap, quota("a"))
    text = (folder / "kquota.yaml").read_text()
    (folder / "kquota.yaml").write_text(
        text + text.split("---\n")[1].join(["---\n", ""]).replace("name: prod", "name: two")
    )
    document = json.loads(kquota("doctor", "--all", "--format", "json").out)
    assert [cluster["cluster"] for cluster in document["clusters"]] == ["prod", "two"]


# -- validate -------------------------------------------------------------------------------------


@pytest.fixture
def files(folder):
    project(folder, "no-cluster-is-asked:1", quota("a"))
    return folder


def test_client_properties_are_checked_and_secrets_belong_in_no_file_of_git(kquota, folder):
    properties = "  properties: {security.protocl: SASL_SSL, sasl.password: hunter2}\n"
    project(folder, "broker-1", quota("a"), more=properties)
    ran = kquota("validate")
    assert ran.code == 1
    start = "kquota.yaml: error: QuotaCluster prod: "
    assert f"{start}bootstrap.servers: 'broker-1' is not host:port" in ran.out
    assert f"{start}unknown key 'security.protocl'; did you mean security.protocol?" in ran.out
    assert "kquota.yaml: warning: QuotaCluster prod: sasl.password is written out" in ran.out
    assert "hunter2" not in ran.out


def test_problems_conflicts_and_warnings_are_all_listed_with_their_places(kquota, files):
    manifests(
        files,
        quota("a", "{producerByteRate: -1}"),
        quota("b", entity='{user: {name: "User:b"}}'),
        quota("c", entity='{user: {name: "User:b"}}'),
    )
    ran = kquota("validate")
    assert ran.code == 1
    assert "quotas/all.yaml:10:30: error: " in ran.out
    assert "is declared by team/b, and by team/c at quotas/all.yaml:30" in ran.out
    assert "warning: " in ran.out
    assert ran.out.splitlines()[-1] == "1 file, 2 documents: 3 problems, 2 warnings"
    assert ran.err == ""


def test_json_contains_the_findings(kquota, files):
    manifests(
        files, quota("a", "{producerByteRate: -1}"), quota("b", entity='{user: {name: "User:b"}}')
    )
    findings = json.loads(kquota("validate", "--format", "json").out)["findings"]
    assert {finding["rule"] for finding in findings} == {"manifest", "warning"}
