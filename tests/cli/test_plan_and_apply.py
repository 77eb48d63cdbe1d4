"""The main workflow by command line: plan, apply, no changes; guards, policies, PATHs, several clusters."""

import json

import pytest

from reconciler.sandbox import Fault, SandboxSettings
from reconciler.sandbox.broker_rules.alterations import BrokerFailure
from reconciler.sandbox.faults import CutAfter, Refuse, Truncate
from tests.cli.brokers import SandboxThread
from tests.cli.projects import CLUSTER, PROJECT, manifests, project, quota

USER_A, USER_B = (("user", "a"),), (("user", "b"),)
TEN_MEBIBYTES = 10485760.0


def test_a_plan_shows_each_change_with_its_place_and_writes_nothing(kquota, prod, sandbox):
    ran = kquota("plan")
    assert ran.code == 0
    assert ran.err == ""
    assert "validated by the broker" in ran.out.splitlines()[0]
    assert "quotas/all.yaml:10" in ran.out
    assert "Limits apply per broker" in ran.out
    assert sandbox.values() == {}
    assert not (prod / ".kquota").exists()


def test_apply_sends_verifies_records_and_the_second_run_has_no_changes(kquota, prod, sandbox):
    ran = kquota("apply", "--yes")
    assert ran.code == 0
    assert "2 of 2 changes applied and shown by the brokers" in ran.out
    assert sandbox.values() == {
        USER_A: {"producer_byte_rate": TEN_MEBIBYTES},
        USER_B: {"consumer_byte_rate": 2 * TEN_MEBIBYTES},
    }
    before = (prod / ".kquota/inventory.json").read_bytes()
    again = kquota("apply", "--yes")
    assert again.code == 0
    assert "Nothing to do: 2 declared limits in sync." in again.out
    assert (prod / ".kquota/inventory.json").read_bytes() == before
    assert len((prod / ".kquota/audit.jsonl").read_text().splitlines()) == 4


def test_without_a_terminal_apply_requires_the_yes_option(kquota, prod, sandbox):
    ran = kquota("apply")
    assert ran.code == 1
    assert "--yes" in ran.err
    assert sandbox.values() == {}


def test_a_guard_refuses_the_whole_plan_with_exit_3_and_names_its_option(kquota, prod, sandbox):
    manifests(prod, quota("a"), quota("every", entity="{user: {default: true}}"))
    for command in (("plan",), ("apply", "--yes")):
        ran = kquota(*command)
        assert ran.code == 3
        assert "--allow-defaults" in ran.out + ran.err
    assert sandbox.values() == {}
    assert kquota("apply", "--yes", "--allow-defaults").code == 0
    assert len(sandbox.values()) == 2


def test_a_conflict_is_reported_with_both_places_and_exits_1(kquota, prod, sandbox):
    manifests(
        prod, quota("one", entity="{user: {name: a}}"), quota("two", entity="{user: {name: a}}")
    )
    ran = kquota("apply", "--yes")
    assert ran.code == 1
    pair = "producer_byte_rate of user=a is declared by"
    assert (
        f"quotas/all.yaml:10:1: {pair} team/one, and by team/two at quotas/all.yaml:20" in ran.err
    )
    assert (
        f"quotas/all.yaml:20:1: {pair} team/two, and by team/one at quotas/all.yaml:10" in ran.err
    )
    assert sandbox.values() == {}


def test_command_line_options_can_only_tighten_the_policy(kquota, prod, sandbox):
    assert kquota("plan", "--policy", "Sync").code == 1
    ran = kquota("apply", "--yes", "--policy", "Observe")
    assert ran.code == 0
    assert sandbox.values() == {}


def test_an_only_option_that_matches_nothing_is_a_warning(kquota, prod):
    ran = kquota("plan", "--only", "user=typo", "--only", "user=b")
    assert "--only user=typo: no document, record or live quota has this entity" in ran.out
    assert "--only user=b: no document" not in ran.out


def test_a_path_limits_the_plan_to_its_documents(kquota, prod, sandbox):
    kquota("apply", "--yes")
    (prod / "quotas" / "c.yaml").write_text(quota("c"))
    ran = kquota("plan", "quotas/c.yaml")
    assert "user=c" in ran.out
    assert "user=a" not in ran.out
    assert kquota("apply", "--yes", "quotas/c.yaml").code == 0
    assert len(sandbox.values()) == 3
    assert kquota("plan", "--detailed-exitcode").code == 0


def test_a_path_that_matches_nothing_is_an_error(kquota, prod):
    ran = kquota("plan", "quotas/nope.yaml")
    assert ran.code == 1
    assert "path 'quotas/nope.yaml' matches no file" in ran.err


@pytest.mark.parametrize("is_project", [False, True])
def test_files_of_no_configured_list_remove_nothing_that_other_files_declare(
    kquota, folder, sandbox, is_project
):
    """Without a project, or with one that configures no manifests, files are applied one after the other."""
    where = () if is_project else ("--bootstrap-server", sandbox.bootstrap)
    if is_project:
        (folder / "kquota.yaml").write_text(
            CLUSTER.format(name="prod", bootstrap=sandbox.bootstrap)
        )
    deleting = "  deletionPolicy: Delete\n"
    (folder / "a.yaml").write_text(
        quota("a", "{producerByteRate: 10Mi, consumerByteRate: 10Mi}", more=deleting)
    )
    (folder / "b.yaml").write_text(quota("b", more=deleting))
    (folder / "same.yaml").write_text(quota("a", entity="{user: {name: c}}", more=deleting))
    for name in ("a.yaml", "b.yaml", "same.yaml"):
        ran = kquota("apply", name, "--yes", *where)
        assert ran.code == 0, ran.err
    assert sorted(sandbox.values()) == [USER_A, USER_B, (("user", "c"),)]
    assert "its document is not among the files of this run" in ran.out
    assert "a document of its name has another entity" in ran.out
    again = kquota("plan", "a.yaml", "--format", "json", *where)
    assert json.loads(again.out)["changes"] == []
    (folder / "a.yaml").write_text(quota("a", more=deleting))
    assert kquota("apply", "a.yaml", "--yes", *where).code == 0
    assert sandbox.values()[USER_A] == {"producer_byte_rate": TEN_MEBIBYTES}


def test_a_standing_confirmation_of_sync_makes_no_file_the_complete_list(kquota, folder, sandbox):
    """A project that configures no manifests: only a confirmation of this run asks for removals."""
    cluster_id = "A" * 22
    sync = f"  policy: Sync\n  expectedClusterId: {cluster_id}\n  confirmSync: {cluster_id}\n"
    (folder / "kquota.yaml").write_text(
        CLUSTER.format(name="prod", bootstrap=sandbox.bootstrap) + sync
    )
    for name in ("a", "b"):
        (folder / f"{name}.yaml").write_text(quota(name))
        assert kquota("apply", f"{name}.yaml", "--yes").code == 0
    assert sorted(sandbox.values()) == [USER_A, USER_B]
    assert kquota("apply", "b.yaml", "--yes", "--confirm-sync", cluster_id).code == 0
    assert sorted(sandbox.values()) == [USER_B]


def test_documents_without_a_project_are_applied_to_addresses(kquota, folder, sandbox):
    (folder / "q.yaml").write_text(quota("a", cluster="any"))
    ran = kquota("apply", "q.yaml", "--yes", "--bootstrap-server", sandbox.bootstrap)
    assert ran.code == 0
    assert list(sandbox.values()) == [USER_A]


def test_documents_of_several_clusters_need_a_name_beside_addresses(kquota, folder, sandbox):
    (folder / "q.yaml").write_text(quota("a", cluster="one") + quota("b", cluster="two"))
    ran = kquota("plan", "q.yaml", "--bootstrap-server", sandbox.bootstrap)
    assert ran.code == 1
    assert "2 clusters: one, two" in ran.err
    two = kquota("plan", "q.yaml", "--bootstrap-server", sandbox.bootstrap, "--cluster", "two")
    assert "user=b" in two.out
    assert "user=a" not in two.out


def test_an_entity_that_the_broker_rejects_does_not_stop_the_others(kquota, prod, sandbox):
    failure = BrokerFailure(code=44, message="not you")
    sandbox.fail(Fault(effect=Refuse(failure=failure, names=USER_A), api=49, skip=1, times=-1))
    ran = kquota("apply", "--yes")
    assert ran.code == 1
    assert "POLICY_VIOLATION: not you" in ran.out
    assert "1 of 2 changes applied and shown by the brokers" in ran.out
    assert list(sandbox.values()) == [USER_B]


def test_an_unknown_outcome_is_reported_and_the_next_run_settles_it(kquota, prod, sandbox):
    sandbox.fail(Fault(effect=CutAfter(), api=49, skip=1))
    ran = kquota("apply", "--yes")
    assert ran.code in {0, 1}
    assert len(sandbox.values()) == 2
    again = kquota("apply", "--yes")
    assert again.code == 0
    assert kquota("plan", "--detailed-exitcode").code == 0


def test_a_truncated_describe_is_an_error_and_never_an_empty_cluster(kquota, prod, sandbox):
    kquota("apply", "--yes")
    sandbox.fail(Fault(effect=Truncate(keep=20), api=48, times=-1))
    ran = kquota("apply", "--yes", "--timeout", "500ms")
    assert ran.code == 1
    assert ran.out == ""
    assert "Traceback" not in ran.err
    assert len(sandbox.values()) == 2


def test_the_wrong_cluster_is_never_written_to(kquota, folder, sandbox):
    project(folder, sandbox.bootstrap, quota("a"), more=f"  expectedClusterId: {'B' * 22}\n")
    ran = kquota("apply", "--yes")
    assert ran.code == 3
    assert "B" * 22 in ran.err
    assert sandbox.values() == {}


def test_sync_removes_undeclared_limits_after_confirmation(kquota, folder, sandbox):
    more = f"  expectedClusterId: {'A' * 22}\n  policy: Sync\n"
    project(folder, sandbox.bootstrap, quota("a"), quota("b"), more=more)
    kquota("apply", "--yes")
    manifests(folder, quota("a"))
    kquota("apply", "--yes")
    assert len(sandbox.values()) == 2
    assert (
        kquota("apply", "--yes", "--confirm-sync", "A" * 22, "--max-removed-percent", "100").code
        == 0
    )
    assert list(sandbox.values()) == [USER_A]


def test_a_user_that_is_no_longer_managed_is_left_alone_and_not_shown_as_a_mistake(
    kquota, folder, sandbox
):
    project(folder, sandbox.bootstrap, quota("a", more="  deletionPolicy: Retain\n"), quota("b"))
    assert kquota("apply", "--yes").code == 0
    manifests(folder, quota("b"))
    for words in ((), ("--format", "markdown")):
        text = kquota("plan", *words).out
        assert "left alone" in text.lower()
        assert "To remove such a limit" not in text
        assert "Needs attention" not in text
    assert kquota("apply", "--yes").code == 0
    assert (("user", "a"),) in sandbox.values()
    assert [
        row["document"] for row in json.loads(kquota("plan", "--format", "json").out)["released"]
    ]


def test_a_deletion_policy_that_changes_is_a_change_of_the_record_that_an_apply_has_to_make(
    kquota, folder, sandbox
):
    """A pipeline that applies after exit 2 would otherwise never remove the limit."""
    project(folder, sandbox.bootstrap, quota("a"))
    assert kquota("apply", "--yes").code == 0
    assert kquota("plan", "--detailed-exitcode").code == 0
    project(folder, sandbox.bootstrap, quota("a", more="  deletionPolicy: Delete\n"))
    ran = kquota("plan", "--detailed-exitcode")
    assert ran.code == 2
    assert "No limit to write: 1 record to bring up to date;" in ran.out
    assert "1 record to bring up to date" in kquota("plan", "--format", "markdown").out
    assert kquota("apply", "--yes").code == 0
    assert kquota("plan", "--detailed-exitcode").code == 0


def test_several_outcomes_are_one_document(kquota, folder, sandbox):
    with SandboxThread(SandboxSettings(cluster_id="B" * 22)) as other_thread:
        places = {"again": other_thread.bootstrap, "gone": "127.0.0.1:1", "prod": sandbox.bootstrap}
        clusters = [CLUSTER.format(name=name, bootstrap=at) for name, at in places.items()]
        (folder / "kquota.yaml").write_text("---\n".join([PROJECT, *clusters]))
        manifests(folder, quota("a"), quota("b", cluster="again"), quota("c", cluster="gone"))
        ran = kquota("apply", "--all", "--yes", "--timeout", "3s", "--format", "json")
    assert ran.code == 1
    document = json.loads(ran.out)
    assert document["kind"] == "kquota-outcomes"
    assert [outcome["cluster"] for outcome in document["outcomes"]] == ["again", "prod"]
    assert all(len(outcome["outcome"]["pairs"]) == 1 for outcome in document["outcomes"])


def test_a_suspended_cluster_is_observed_and_not_written(kquota, folder, sandbox):
    project(folder, sandbox.bootstrap, quota("a"), more="  suspend: true\n")
    ran = kquota("apply", "--yes")
    assert ran.code == 0
    assert "suspended" in ran.err
    assert sandbox.values() == {}
