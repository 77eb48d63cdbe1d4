"""Tests of kquota adopt and export: live quotas become valid manifests, and the plan after it is empty."""

import contextlib
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.cli import main
from tests.cli.brokers import SandboxThread

FEW = {
    (("user", "etl-nightly"),): {"producer_byte_rate": 1048576.0, "consumer_byte_rate": 5.0},
    (("user", "Etl-Hourly"),): {"producer_byte_rate": 2097152.0},
    (("client-id", None), ("user", "pay")): {"request_percentage": 0.5},
    (("user", None),): {"producer_byte_rate": 1024.0},
    (("ip", "10.0.0.7"),): {"connection_creation_rate": 7.0},
}


@pytest.fixture
def project(kquota, folder, sandbox) -> Path:
    sandbox.seed(FEW)
    assert kquota("init", "--bootstrap-server", sandbox.bootstrap, "--cluster", "prod").code == 0
    return folder


def files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in (folder / "quotas").rglob("*.yaml")}


def plan(kquota) -> dict:
    ran = kquota("plan", "--detailed-exitcode", "--format", "json")
    assert ran.code == 0, ran.err
    return json.loads(ran.out)


def test_every_live_quota_is_adopted_and_the_plan_is_empty(kquota, project, sandbox):
    ran = kquota("adopt")
    assert ran.code == 0, ran.err
    assert "Nothing to do" in ran.out
    assert files(project) == {
        "quotas/example.yaml",
        "quotas/users.yaml",
        "quotas/users-with-default-client-id.yaml",
        "quotas/defaults.yaml",
        "quotas/ips.yaml",
    }
    displayed_plan = plan(kquota)
    assert (displayed_plan["changes"], displayed_plan["unmanaged"]) == ([], [])
    assert kquota("validate").code == 0
    assert sandbox.values() == FEW


def test_documents_have_readable_names(kquota, project):
    assert kquota("adopt", "--split", "entity").code == 0
    assert "quotas/user.etl-hourly.yaml" in files(project)
    assert "quotas/user.pay.default-client.yaml" in files(project)


def test_a_second_run_adopts_only_new_quotas(kquota, project, sandbox):
    assert kquota("adopt").code == 0
    before = files(project)
    ran = kquota("adopt")
    assert ran.code == 0, ran.err
    assert files(project) == before
    sandbox.seed(
        {
            (("user", "new"),): {"producer_byte_rate": 4096.0},
            (("user", "etl-nightly"),): {"request_percentage": 50.0},
        }
    )
    assert kquota("adopt").code == 0
    assert files(project) == before | {"quotas/adopted-1/users.yaml"}
    displayed_plan = plan(kquota)
    assert (displayed_plan["changes"], displayed_plan["unmanaged"]) == ([], [])


@pytest.mark.parametrize(
    "words",
    [("adopt", "--split", "entity"), ("export", "--split", "entity", "--out-dir", "quotas")],
)
def test_of_a_limit_under_an_override_the_value_from_before_is_written(
    kquota, project, sandbox, words
):
    settings = (project / "kquota.yaml").read_text()
    (project / "kquota.yaml").write_text(settings.replace("policy: Observe", "policy: Upsert"))
    begun = ("override", "set", "--for", "2h", "--reason", "x", "--yes", "--new-entity")
    for limit in (
        "user=pay,client-id=<default> request_percentage=unset",
        "user=new producer_byte_rate=2Mi",
    ):
        assert kquota(*begun, *limit.split()).code == 0
    for value in ("3Mi", "4Mi"):
        assert kquota(*begun, "user=etl-nightly", f"producer_byte_rate={value}").code == 0
    assert kquota(*begun, "user=Etl-Hourly", "producer_byte_rate=3Mi").code == 0
    sandbox.seed({(("user", "Etl-Hourly"),): {"producer_byte_rate": 2097153.0}})  # another writer
    ran = kquota(*words)
    assert ran.code == 0, ran.err
    assert (
        "user=etl-nightly, producer_byte_rate: the live value is temporary (override by" in ran.err
    )
    assert "the value from before it: 1 MiB/s" in ran.err
    assert "user=new, producer_byte_rate" in ran.err
    assert "Etl-Hourly" not in ran.err
    declared = {path.stem: path.read_text() for path in (project / "quotas").glob("user.*.yaml")}
    assert "producerByteRate: 1Mi" in declared["user.etl-nightly"]
    assert "producerByteRate: 2097153" in declared["user.etl-hourly"]
    assert "requestPercentage: 0.5" in declared["user.pay.default-client"]
    assert "user.new" not in declared
    pending = json.loads(kquota("plan", "--format", "json").out)["pending"]
    assert [change["text"] for change in pending] == ["user=Etl-Hourly"]


def test_what_only_a_document_declares_whose_end_is_over_is_adopted(kquota, project):
    assert kquota("adopt").code == 0
    users = project / "quotas" / "users.yaml"
    users.write_text(users.read_text().replace("spec:", 'spec:\n  until: "2020-01-01T00:00:00Z"'))
    assert len(plan(kquota)["unmanaged"]) == 3
    assert kquota("adopt").code == 0
    assert plan(kquota)["unmanaged"] == []


def test_quotas_that_no_manifest_can_represent_are_listed_and_the_rest_is_adopted(
    kquota, project, sandbox
):
    sandbox.seed({(("user", ""),): {"producer_byte_rate": 4096.0}})
    ran = kquota("adopt")
    assert ran.code == 1
    assert "an empty user name" in ran.err
    assert "quotas/users.yaml" in files(project)
    assert kquota("adopt", "--partial").code == 0


def test_quotas_that_are_out_of_scope_or_ignored_are_not_exported(kquota, project):
    with (project / "kquota.yaml").open("a") as file:
        file.write("  scope: [{forms: [user, user+defaultClientId]}]\n")
        file.write("  ignore: [{user: {prefix: Etl}, reason: other team}]\n")
    ran = kquota("adopt")
    assert ran.code == 0, ran.err
    text = "".join((project / name).read_text() for name in files(project))
    assert "etl-nightly" in text
    assert "Etl-Hourly" not in text
    assert "10.0.0.7" not in text
    assert "quotas/defaults.yaml" not in files(project)


def test_under_sync_nothing_is_adopted(kquota, project, sandbox):
    text = (project / "kquota.yaml").read_text()
    (project / "kquota.yaml").write_text(
        text.replace("policy: Observe", "expectedClusterId: x\n  policy: Sync")
    )
    ran = kquota("adopt")
    assert ran.code == 1
    assert "policy: Observe" in ran.err
    assert files(project) == {"quotas/example.yaml"}


def test_an_export_to_a_folder_never_replaces_a_file(kquota, folder, sandbox):
    sandbox.seed(FEW)
    where = (
        "export",
        "--bootstrap-server",
        sandbox.bootstrap,
        "--cluster",
        "prod",
        "--out-dir",
        "q",
    )
    assert kquota(*where).code == 0
    assert kquota(*where).code == 0
    (folder / "q" / "ips.yaml").write_text("# mine\n")
    ran = kquota(*where)
    assert ran.code == 1
    assert "exists with other content" in ran.err
    assert kquota(*where, "--out", "x.yaml").code == 1


@pytest.mark.parametrize("team", ["etl-", "=data", "etl-=Data"])
def test_a_malformed_team_is_refused(kquota, folder, sandbox, team):
    ran = kquota(
        "export", "--bootstrap-server", sandbox.bootstrap, "--cluster", "a", "--team", team
    )
    assert ran.code == 1
    assert "PREFIX=NAMESPACE" in ran.err


TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
ENTITIES = st.one_of(
    st.builds(lambda name: (("user", name),), TEXT),
    st.builds(lambda user, name: (("user", user), ("client-id", name)), TEXT, TEXT | st.none()),
    st.just((("user", None),)),
    st.just((("client-id", None),)),
)
LIMITS = st.fixed_dictionaries(
    {},
    optional={
        "producer_byte_rate": st.integers(1, 2**53).map(float),
        "consumer_byte_rate": st.integers(1, 5_000).map(float),
        "request_percentage": st.floats(1e-7, 1e6),
        "controller_mutation_rate": st.floats(1e-7, 1e6),
    },
).filter(bool)


@given(st.dictionaries(ENTITIES, LIMITS, min_size=1, max_size=6))
def test_an_export_of_any_live_quotas_is_valid_and_its_plan_is_empty(values):
    with SandboxThread() as live, tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        live.seed(values)
        where = ["--bootstrap-server", live.bootstrap]
        assert main.main(["export", *where, "--cluster", "any", "--out-dir", "q"]) == 0
        assert main.main(["validate", "q"]) == 0
        assert main.main(["plan", "q", *where, "--detailed-exitcode", "--no-inventory"]) == 0


def test_apply_from_standard_input_names_every_missing_option_before_it_contacts_the_cluster(
    kquota, sandbox
):
    sandbox.seed(FEW)
    where = ("--bootstrap-server", sandbox.bootstrap)
    text = kquota("export", *where, "--cluster", "any").out
    unreachable = ("--bootstrap-server", "127.0.0.1:1")
    ran = kquota("apply", "-", *unreachable, "--yes", stdin=text)
    assert ran.code == 3
    assert "if this is intended, add --allow-defaults --allow-small-values" in ran.err
    assert "127.0.0.1:1" not in ran.err
    flags = ("--yes", "--allow-defaults", "--allow-small-values")
    with SandboxThread() as empty:
        target = ("--bootstrap-server", empty.bootstrap)
        ran = kquota("apply", "-", *target, *flags, stdin=text)
        assert ran.code == 0, ran.err
        assert empty.values() == FEW


def test_without_a_project_the_error_names_the_command_that_creates_one(kquota, folder, sandbox):
    ran = kquota("adopt", "--bootstrap-server", sandbox.bootstrap, "--cluster", "prod")
    assert ran.code == 1
    assert "kquota init" in ran.err
