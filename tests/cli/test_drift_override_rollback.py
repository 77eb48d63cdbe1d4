"""Changes outside the documents: drift, overrides, rollbacks."""

import json
import shlex
import shutil
from pathlib import Path

import pytest

from reconciler.inventory.file_lock import FileLock
from reconciler.sandbox import Fault
from reconciler.sandbox.faults import CutBefore
from tests.cli.projects import CLUSTER, manifests, project, quota

USER_A = (("user", "a"),)
TEN = 10485760.0


@pytest.fixture
def applied(kquota, folder, sandbox):
    """A project with one document, applied."""
    project(folder, sandbox.bootstrap, quota("a"))
    assert kquota("apply", "--yes").code == 0
    return folder


def rate(sandbox) -> float | None:
    return sandbox.values().get(USER_A, {}).get("producer_byte_rate")


def test_drift_is_printed_with_both_values_and_not_corrected(kquota, applied, sandbox):
    assert kquota("drift", "--detailed-exitcode").code == 0
    sandbox.seed({USER_A: {"producer_byte_rate": 5000.0}})
    ran = kquota("drift", "--detailed-exitcode")
    assert ran.code == 2
    assert "10485760 (10 MiB/s)" in ran.out
    assert "team/a" in ran.out
    assert kquota("drift").code == 0
    assert rate(sandbox) == 5000.0


def test_ignored_drift_is_shown_and_does_not_fail_the_command(kquota, applied, sandbox):
    with (applied / "kquota.yaml").open("a") as file:
        file.write("  ignore:\n    - user: {exact: a}\n      reason: the canary sets its own\n")
    sandbox.seed({USER_A: {"producer_byte_rate": 5000.0}})
    ran = kquota("drift", "--detailed-exitcode", "--format", "json")
    assert ran.code == 0
    assert json.loads(ran.out)["drift"][0]["section"] == "ignored"


def test_drift_keeps_the_time_of_its_first_observation(kquota, applied, sandbox):
    sandbox.seed({USER_A: {"producer_byte_rate": 5000.0}})
    first = json.loads(kquota("drift", "--format", "json").out)["drift"][0]
    second = json.loads(kquota("drift", "--format", "json").out)["drift"][0]
    assert first["since"] == second["since"]
    assert first["since"] is not None


def test_drift_is_shown_where_its_time_cannot_be_recorded(kquota, applied, sandbox):
    sandbox.seed({USER_A: {"producer_byte_rate": 5000.0}})
    lock = applied / ".kquota/.inventory.json.lock"
    lock.unlink(missing_ok=True)
    lock.mkdir()
    ran = kquota("drift", "--detailed-exitcode")
    assert ran.code == 2
    assert "team/a" in ran.out
    assert "warning: when drift was first seen is not recorded: " in ran.err


def test_a_drift_that_waits_for_the_records_names_the_option_that_needs_none(
    kquota, applied, sandbox
):
    sandbox.seed({USER_A: {"producer_byte_rate": 5000.0}})
    lock = applied / ".kquota/.inventory.json.AAAAAAAAAAAAAAAAAAAAAA.lock"
    with FileLock(lock, command="kquota apply", now=0.0):
        ran = kquota("drift")
        assert ran.code == 1
        assert "locked by kquota apply" in ran.err
        assert "`kquota drift --read-only` shows drift meanwhile" in ran.err
        assert kquota("drift", "--read-only", "--detailed-exitcode").code == 2


def test_read_only_drift_writes_nothing(kquota, applied, sandbox):
    sandbox.seed({USER_A: {"producer_byte_rate": 5000.0}})
    before = (applied / ".kquota/inventory.json").read_bytes()
    assert kquota("drift", "--read-only", "--detailed-exitcode").code == 2
    assert (applied / ".kquota/inventory.json").read_bytes() == before


def test_apply_corrects_drift_only_where_it_is_configured(kquota, applied, sandbox):
    sandbox.seed({USER_A: {"producer_byte_rate": 5000000.0}})
    assert kquota("apply", "--yes").code == 0
    assert rate(sandbox) == 5000000.0
    assert kquota("apply", "--yes", "--correct-drift").code == 0
    assert rate(sandbox) == TEN


def test_an_override_survives_an_apply_is_listed_and_ends(kquota, applied, sandbox):
    words = ("--for", "2h", "--reason", "INC-1", "--yes")
    assert kquota("override", "user=a", "producer_byte_rate=50Mi", *words).code == 0
    assert rate(sandbox) == 5 * TEN
    assert kquota("apply", "--yes").code == 0
    assert rate(sandbox) == 5 * TEN
    output = kquota("override", "list").out
    assert "52428800 (50 MiB/s)" in output
    assert "10485760 (10 MiB/s)" in output
    assert "INC-1" in output
    (row,) = json.loads(kquota("override", "list", "--format", "json").out)["overrides"]
    assert (row["value"], row["declared"], row["expired"]) == (52428800, 10485760, False)
    assert kquota("override", "end", "user=a", "--yes").code == 0
    assert rate(sandbox) == TEN
    assert "no overrides" in kquota("override", "list").out
    assert kquota("plan", "--detailed-exitcode").code == 0


RAISE = """---
apiVersion: kafka-quotas.io/v1alpha1
kind: ClientQuota
metadata: {name: raise, namespace: team}
spec:
  clusterRef: {name: prod}
  entity: {user: {name: a}}
  limits: {producerByteRate: 50Mi}
  until: "%s"
"""


def test_a_document_with_an_end_is_in_force_until_then(kquota, applied, sandbox):
    manifests(applied, quota("a"), RAISE % "2999-01-01T00:00:00Z")
    plan = json.loads(kquota("plan", "--format", "json").out)
    assert [row["cause"] for row in plan["changes"]] == ["Temporary"]
    assert plan["changes"][0]["document"] == "team/raise"
    assert kquota("apply", "--yes", "--only", "user=a").code == 0
    assert rate(sandbox) == 5 * TEN
    assert kquota("plan", "--detailed-exitcode").code == 0
    assert kquota("drift", "--detailed-exitcode").code == 0
    sandbox.seed({USER_A: {"producer_byte_rate": 5000.0}})
    assert kquota("drift", "--detailed-exitcode").code == 2
    assert kquota("apply", "--yes", "--correct-drift").code == 0
    assert rate(sandbox) == 5 * TEN
    ran = kquota("override", "end", "user=a", "--yes")
    assert (ran.code, "delete the document or change its spec.until" in ran.err) == (1, True)
    # An override is above it, and its end brings the document back.
    words = ("--for", "1h", "--reason", "x", "--yes")
    assert kquota("override", "user=a", "producer_byte_rate=70Mi", *words).code == 0
    assert (kquota("apply", "--yes").code, rate(sandbox)) == (0, 7 * TEN)
    assert (kquota("override", "end", "user=a", "--yes").code, rate(sandbox)) == (0, 5 * TEN)
    # Its end is over: it declares nothing, and the lasting document is in charge again.
    manifests(applied, quota("a"), RAISE % "2026-01-01T00:00:00Z")
    assert "spec.until" in kquota("validate").out
    assert (kquota("apply", "--yes").code, rate(sandbox)) == (0, TEN)


def test_the_value_of_an_override_is_within_the_bounds_or_typed_as_any(kquota, applied, sandbox):
    words = ("--for", "1h", "--reason", "x", "--yes")
    ran = kquota("override", "user=a", "producer_byte_rate=5", *words)
    assert (ran.code, "--any-value" in ran.err, rate(sandbox)) == (3, True, TEN)
    assert kquota("override", "user=a", "producer_byte_rate=5", *words, "--any-value").code == 0
    assert rate(sandbox) == 5.0


def test_an_expired_override_is_replaced_by_the_declared_value(kquota, applied, sandbox):
    words = ("--for", "1ms", "--reason", "x", "--yes")
    kquota("override", "user=a", "producer_byte_rate=50Mi", *words)
    assert rate(sandbox) == 5 * TEN
    assert kquota("apply", "--yes").code == 0
    assert rate(sandbox) == TEN


def test_an_override_of_an_undeclared_pair_restores_the_earlier_value(kquota, applied, sandbox):
    sandbox.seed({(("user", "z"),): {"consumer_byte_rate": 2048.0}})
    words = ("--for", "1h", "--reason", "x", "--yes")
    assert kquota("override", "user=z", "consumer_byte_rate=4Ki", *words).code == 0
    assert sandbox.values()[("user", "z"),]["consumer_byte_rate"] == 4096.0
    assert kquota("override", "end", "user=z", "--yes").code == 0
    assert sandbox.values()[("user", "z"),]["consumer_byte_rate"] == 2048.0


def test_an_override_may_remove_a_limit_temporarily(kquota, applied, sandbox):
    words = ("--for", "1h", "--reason", "x", "--yes")
    assert kquota("override", "user=a", "producer_byte_rate=unset", *words).code == 0
    assert sandbox.values() == {}
    assert kquota("override", "end", "user=a", "producer_byte_rate", "--yes").code == 0
    assert rate(sandbox) == TEN


def test_an_override_is_not_refused_by_guards(kquota, applied, sandbox):
    words = ("--for", "1h", "--reason", "x", "--yes", "--any-value", "--new-entity")
    assert kquota("override", "user=a", "producer_byte_rate=100", *words).code == 0
    assert kquota("override", "user=<default>", "producer_byte_rate=100", *words).code == 0
    assert rate(sandbox) == 100.0


def test_an_override_works_with_invalid_manifests(kquota, applied, sandbox):
    manifests(applied, "nonsense: [")
    words = ("--for", "1h", "--reason", "x", "--yes")
    ran = kquota("override", "user=a", "producer_byte_rate=20Mi", *words)
    assert ran.code == 0
    assert "manifests cannot be read" in ran.err
    assert rate(sandbox) == 2 * TEN


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("user=a", "producer_byte_rate=1Mi", "--reason", "x"), "--for"),
        (("user=a", "producer_byte_rate=1Mi", "--for", "1h"), "--reason"),
        (("user=a", "speed=1", "--for", "1h", "--reason", "x", "--yes"), "unknown key 'speed'"),
        (("user=a", "--for", "1h", "--reason", "x", "--yes"), "KEY=VALUE"),
        (
            ("ip=1.2.3.4", "producer_byte_rate=1Mi", "--for", "1h", "--reason", "x", "--yes"),
            "cannot be set",
        ),
        (("user=a", "producer_byte_rate=1Mi", "--for", "1h", "--reason", "x"), "--yes"),
        (("end", "user=nobody", "--yes"), "there is no override of user=nobody"),
        (
            ("end", "user=a", "consumer_byte_rate", "--yes"),
            "there is no override of user=a, consumer_byte_rate",
        ),
    ],
)
def test_an_invalid_override_is_refused_with_a_message(kquota, applied, arguments, message):
    ran = kquota("override", *arguments)
    assert ran.code == 1
    assert message in ran.err
    assert "Traceback" not in ran.err


def test_a_rollback_restores_the_values_and_the_next_apply_keeps_them(kquota, applied, sandbox):
    manifests(applied, quota("a", "{producerByteRate: 20Mi, consumerByteRate: 1Mi}"))
    ran = kquota("apply", "--yes", "--out", "outcome.json")
    assert "kquota rollback outcome.json" in ran.err
    assert rate(sandbox) == 2 * TEN
    assert kquota("rollback", "outcome.json", "--yes").code == 0
    assert sandbox.values() == {USER_A: {"producer_byte_rate": TEN}}
    assert kquota("apply", "--yes").code == 0
    assert sandbox.values() == {USER_A: {"producer_byte_rate": TEN}}
    manifests(applied, quota("a", "{producerByteRate: 30Mi, consumerByteRate: 1Mi}"))
    kquota("apply", "--yes")
    assert rate(sandbox) == 3 * TEN


@pytest.mark.parametrize(
    ("path", "message"),
    [("missing/outcome.json", "there is no folder missing"), ("/dev/null", "it is a device")],
)
def test_an_apply_whose_outcome_cannot_be_saved_writes_nothing(
    kquota, applied, sandbox, path, message
):
    manifests(applied, quota("a", "{producerByteRate: 20Mi}"))
    before = sandbox.values()
    ran = kquota("apply", "--yes", "--out", path)
    assert ran.code == 1
    assert f"{path} cannot be written: {message}" in ran.err
    assert sandbox.values() == before


APPLY = ("apply",)
OVERRIDE = ("override", "user=a", "producer_byte_rate=5Mi", "--for", "1h", "--reason", "x")
ROLLBACK = ("rollback", "outcome.json")


@pytest.mark.parametrize("words", [APPLY, OVERRIDE, ROLLBACK], ids=lambda words: words[0])
def test_nothing_is_sent_unless_the_file_that_undoes_it_was_written(
    kquota, applied, sandbox, words
):
    manifests(applied, quota("a", "{producerByteRate: 20Mi}"))
    assert kquota("apply", "--yes", "--out", "outcome.json").code == 0
    manifests(applied, quota("a", "{producerByteRate: 30Mi}"))
    outcomes = applied / ".kquota/outcomes"
    shutil.rmtree(outcomes)
    outcomes.write_text("a file where the folder should be")
    before = sandbox.values()
    ran = kquota(*words, "--yes")
    assert ran.code == 1
    assert sandbox.values() == before
    assert "error: 0 applied, 1 change not sent: .kquota/outcomes/" in ran.err
    assert "undo" not in ran.err
    assert "no overrides" in kquota("override", "list").out
    outcomes.unlink()
    assert kquota(*words, "--yes").code == 0, "the next run continues"
    assert sandbox.values() != before


def test_an_error_of_the_records_says_that_nothing_was_sent(kquota, applied, sandbox):
    manifests(applied, quota("a", "{producerByteRate: 20Mi}"))
    log = applied / ".kquota/audit.jsonl"
    log.unlink()
    log.mkdir()
    before = sandbox.values()
    ran = kquota("apply", "--yes")
    assert ran.code == 1
    assert "error: 0 applied, 1 change not sent: .kquota/audit.jsonl cannot be " in ran.err
    assert "next: `kquota apply`" in ran.err
    assert sandbox.values() == before


def test_an_apply_without_changes_replaces_the_outcome_of_an_earlier_one(kquota, applied, sandbox):
    manifests(applied, quota("a", "{producerByteRate: 20Mi}"))
    assert kquota("apply", "--yes", "--out", "outcome.json").code == 0
    idle = kquota("apply", "--yes", "--out", "outcome.json", "--format", "json")
    assert json.loads(idle.out) == json.loads((applied / "outcome.json").read_text())
    assert json.loads(idle.out)["counts"]["APPLIED"] == 0
    assert "contains no change to restore" in kquota("rollback", "outcome.json", "--yes").err
    assert rate(sandbox) == 2 * TEN


def test_an_apply_saves_its_outcome_by_default(kquota, applied, sandbox):
    (path,) = (applied / ".kquota/outcomes").glob("*.json")
    assert path.name.endswith("-prod.json")
    assert kquota("rollback", str(path), "--yes").code == 0
    assert sandbox.values() == {}


def test_a_rollback_of_another_file_is_refused(kquota, applied):
    kquota("snapshot", "--out", "s.json")
    ran = kquota("rollback", "s.json", "--yes")
    assert ran.code == 1
    assert "s.json" in ran.err
    assert kquota("rollback", "none.json", "--yes").code == 1


def test_without_records_drift_reports_that_it_cannot_be_determined(kquota, folder, sandbox):
    project(folder, sandbox.bootstrap, quota("a"))
    ran = kquota("drift", "--detailed-exitcode")
    assert ran.code == 0
    assert "drift cannot be determined" in ran.err


def advance_intents(folder, seconds: float) -> list:
    """Make the intents in the inventory some seconds older; return them."""
    path = folder / ".kquota/inventory.json"
    document = json.loads(path.read_text())
    (cluster,) = document["clusters"].values()
    for row in cluster["intents"]:
        row[-1] -= seconds
    path.write_text(json.dumps(document))
    return cluster["intents"]


def test_a_value_that_another_writer_sets_after_a_lost_write_is_kept(kquota, folder, sandbox):
    bob = (("user", "bob"),)
    sync = "  policy: Sync\n  expectedClusterId: AAAAAAAAAAAAAAAAAAAAAA\n"
    project(folder, sandbox.bootstrap, quota("bob", "{producerByteRate: 4000000}"), more=sync)
    sandbox.seed({bob: {"producer_byte_rate": 3000000.0}})
    sandbox.fail(Fault(effect=CutBefore(), api=49))
    words = ("apply", "--yes", "--confirm-sync", "AAAAAAAAAAAAAAAAAAAAAA", "--allow-empty")
    assert kquota(*words, "--validate", "none").code == 1
    assert len(advance_intents(folder, 0.0)) == 1
    manifests(folder, quota("other", "{producerByteRate: 5000000}"))
    assert kquota(*words).code == 0
    assert len(advance_intents(folder, 66.0)) == 1
    assert kquota(*words).code == 0
    assert advance_intents(folder, 0.0) == []
    sandbox.seed({bob: {"producer_byte_rate": 4000000.0}})
    ran = kquota(*words)
    assert (ran.code, sandbox.values()[bob]) == (0, {"producer_byte_rate": 4000000.0})


# ---- overrides that have ended ---------------------------------------------------------------

BRIEFLY = ("--for", "1ms", "--reason", "INC-7", "--yes")


@pytest.fixture
def expired(kquota, applied, sandbox):
    """A project whose only override has ended, with a value that is still live."""
    assert kquota("override", "user=a", "producer_byte_rate=50Mi", *BRIEFLY).code == 0
    assert rate(sandbox) == 5 * TEN
    return applied


def test_drift_reports_an_expired_override_that_is_still_live(kquota, expired, sandbox):
    ran = kquota("drift", "--detailed-exitcode")
    assert ran.code == 2
    assert "Expired overrides that are still live (1)" in ran.out
    assert "10485760 (10 MiB/s)  ->  52428800 (50 MiB/s)" in ran.out
    assert "INC-7" in ran.out
    assert "No drift" not in ran.out
    assert "kquota override end --expired" in ran.err
    assert rate(sandbox) == 5 * TEN


def test_the_json_of_drift_has_expired_overrides_beside_drift(kquota, expired):
    ran = kquota("drift", "--detailed-exitcode", "--format", "json")
    document = json.loads(ran.out)
    assert ran.code == 2
    assert document["drift"] == []
    (row,) = document["expiredOverrides"]
    assert (row["expected"], row["live"], row["reason"]) == (10485760, 52428800, "INC-7")
    assert row["document"] == "team/a"


def test_a_limit_that_an_expired_override_removed_is_restored(kquota, applied, sandbox):
    assert kquota("override", "user=a", "producer_byte_rate=unset", *BRIEFLY).code == 0
    assert rate(sandbox) is None
    assert kquota("drift", "--detailed-exitcode").code == 2
    assert kquota("override", "end", "--expired", "--yes").code == 0
    assert rate(sandbox) == TEN


def test_an_override_in_force_is_neither_drift_nor_expired(kquota, applied):
    words = ("--for", "1h", "--reason", "x", "--yes")
    assert kquota("override", "user=a", "producer_byte_rate=50Mi", *words).code == 0
    ran = kquota("drift", "--detailed-exitcode")
    assert (ran.code, "No drift." in ran.out) == (0, True)
    assert kquota("doctor").code == 0


def test_doctor_reports_an_expired_override_with_exit_code_2(kquota, expired):
    ran = kquota("doctor")
    assert ran.code == 2
    assert "still live: user=a producer_byte_rate" in ran.out
    assert "kquota override end --expired" in ran.out


def test_a_schedule_reverts_expired_overrides_and_keeps_the_others(kquota, expired, sandbox):
    sandbox.seed({(("user", "z"),): {"consumer_byte_rate": 2048.0}})
    assert kquota("override", "user=z", "consumer_byte_rate=4Ki", *BRIEFLY).code == 0
    words = ("--for", "1h", "--reason", "x", "--yes")
    assert kquota("override", "user=y", "consumer_byte_rate=8Ki", "--new-entity", *words).code == 0
    assert kquota("override", "end", "--expired", "--yes").code == 0
    assert sandbox.values() == {
        USER_A: {"producer_byte_rate": TEN},
        (("user", "z"),): {"consumer_byte_rate": 2048.0},
        (("user", "y"),): {"consumer_byte_rate": 8192.0},
    }
    assert kquota("drift", "--detailed-exitcode").code == 0
    assert kquota("doctor").code == 0
    again = kquota("override", "end", "--expired", "--yes")
    assert (again.code, sandbox.values()[USER_A]) == (0, {"producer_byte_rate": TEN})


def test_an_override_ends_although_a_guard_refuses_what_is_declared_meanwhile(
    kquota, expired, sandbox
):
    manifests(expired, quota("a", "{producerByteRate: 90Gi}"))
    assert kquota("apply", "--yes").code == 3
    assert rate(sandbox) == 5 * TEN
    ran = kquota("override", "end", "--expired", "--yes")
    assert (ran.code, rate(sandbox)) == (0, TEN)
    assert (
        "the override ends without the change that is declared, because a guard refuses" in ran.err
    )
    assert "no overrides" in kquota("override", "list").out
    assert kquota("apply", "--yes").code == 3


def test_an_override_ends_although_a_guard_refuses_the_removals_of_a_plan(kquota, folder, sandbox):
    both = quota("a", "{producerByteRate: 10Mi, consumerByteRate: 10Mi}")
    project(folder, sandbox.bootstrap, both, more="  guards: {maxRemovals: 0}\n")
    assert kquota("apply", "--yes").code == 0
    assert kquota("override", "user=a", "producer_byte_rate=50Mi", *BRIEFLY).code == 0
    manifests(folder, quota("a", "{consumerByteRate: 10Mi}"))
    ran = kquota("override", "end", "--expired", "--yes")
    assert (ran.code, rate(sandbox)) == (0, TEN)
    assert "the next run plans its removal" in ran.out
    assert "no overrides" in kquota("override", "list").out
    ran = kquota("apply", "--yes")
    assert (ran.code, "1 removals are more than the 0 that are allowed" in ran.out) == (3, True)


def test_an_expired_override_is_reverted_from_the_records_without_readable_manifests(
    kquota, expired, sandbox
):
    manifests(expired, "nonsense: [")
    assert kquota("override", "end", "--expired", "--yes").code == 0
    assert rate(sandbox) == TEN


def test_an_override_in_force_is_ended_from_the_records_without_readable_manifests(
    kquota, applied, sandbox
):
    words = ("--for", "1h", "--reason", "x", "--yes")
    assert kquota("override", "user=a", "producer_byte_rate=50Mi", *words).code == 0
    manifests(applied, "nonsense: [")
    ran = kquota("override", "end", "user=a", "--yes")
    assert (ran.code, rate(sandbox)) == (0, TEN)
    assert "temporary limit ended  team/a" in ran.out  # The document: no file was read.


@pytest.mark.parametrize("content", ["nonsense: [", quota("b")], ids=["unreadable", "readable"])
def test_the_end_of_an_override_with_the_live_value_removes_no_limit_that_is_not_declared(
    kquota, folder, sandbox, content
):
    """An override that keeps the limit of a deleted document: its removal is a change of the next apply."""
    deleting = quota("a", more="  deletionPolicy: Delete\n")
    project(folder, sandbox.bootstrap, deleting, quota("b"))
    assert kquota("apply", "--yes").code == 0
    manifests(folder, quota("b"))
    assert kquota("override", "user=a", "producer_byte_rate=10Mi", *BRIEFLY).code == 0
    manifests(folder, content)
    ran = kquota("override", "end", "--expired", "--yes")
    assert (ran.code, rate(sandbox)) == (0, TEN)
    assert "no overrides" in kquota("override", "list").out
    manifests(folder, quota("b"))
    assert (kquota("apply", "--yes").code, rate(sandbox)) == (0, None)


def test_a_declared_value_that_another_tool_wrote_back_is_not_drift(kquota, expired, sandbox):
    sandbox.seed({USER_A: {"producer_byte_rate": TEN}})
    assert kquota("drift", "--detailed-exitcode").code == 0
    sandbox.seed({USER_A: {"producer_byte_rate": 7.0}})
    assert kquota("drift", "--detailed-exitcode").code == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--expired", "user=a"), "remove the entity"),
        (("--expired", "--kubernetes"), "--expired cannot be combined with --kubernetes"),
        ((), "give one entity and one cluster"),
        (("user=a", "--all"), "give one entity and one cluster"),
    ],
)
def test_an_override_that_cannot_be_ended_is_refused_with_the_next_step(
    kquota, applied, arguments, message
):
    ran = kquota("override", "end", *arguments, "--yes")
    assert ran.code == 1
    assert message in ran.err


# ---- a project with several clusters ---------------------------------------------------------


@pytest.fixture
def two_clusters(kquota, folder, sandbox):
    """A project with two clusters, of which `prod` is running; one document, applied."""
    project(folder, sandbox.bootstrap, quota("a"))
    second_cluster = CLUSTER.format(name="other", bootstrap="127.0.0.1:1")
    with (folder / "kquota.yaml").open("a") as file:
        file.write("---\n" + second_cluster)
    return folder


def undo_command(ran) -> list[str]:
    (line,) = [line for line in ran.err.splitlines() if line.startswith("to undo this: ")]
    return shlex.split(line.removeprefix("to undo this: "))


def test_no_undo_command_is_printed_under_a_policy_that_removes_nothing(kquota, two_clusters):
    ran = kquota("apply", "--cluster", "prod", "--policy", "CreateOnly", "--yes")
    assert ran.code == 0
    assert "to undo this" not in ran.err


def test_the_printed_undo_command_works_as_printed(kquota, two_clusters, sandbox):
    program, *arguments = undo_command(kquota("apply", "--cluster", "prod", "--yes"))
    assert (program, arguments[0], "--cluster" in arguments) == ("kquota", "rollback", False)
    assert kquota(*arguments, "--yes").code == 0
    assert rate(sandbox) is None


def test_the_printed_undo_command_contains_the_typed_brokers(kquota, folder, sandbox):
    manifests(folder, quota("a"))
    ran = kquota("apply", "--bootstrap-server", sandbox.bootstrap, "--yes", "quotas")
    _, *arguments = undo_command(ran)
    assert kquota(*arguments, "--yes").code == 0
    assert rate(sandbox) is None


def test_an_outcome_without_a_cluster_name_is_identified_by_the_cluster_id(
    kquota, two_clusters, sandbox
):
    _, _, path = undo_command(kquota("apply", "--cluster", "prod", "--yes"))
    document = json.loads(Path(path).read_text())
    document["origin"]["cluster"] = ""
    Path(path).write_text(json.dumps(document))
    ran = kquota("rollback", path, "--yes")
    assert ran.code == 1
    assert "choose the cluster with --cluster (prod, other)" in ran.err
    text = (two_clusters / "kquota.yaml").read_text()
    spec = f"spec:\n  expectedClusterId: {document['clusterId']}\n  bootstrapServers: {sandbox.bootstrap}"
    (two_clusters / "kquota.yaml").write_text(
        text.replace(f"spec:\n  bootstrapServers: {sandbox.bootstrap}", spec)
    )
    assert kquota("rollback", path, "--yes").code == 0
    assert rate(sandbox) is None


@pytest.mark.parametrize("expects", ["nothing", "the own id", "the id of the file"])
@pytest.mark.parametrize("choice", [("--cluster", "prod"), ()])
def test_the_outcome_of_one_cluster_never_changes_another(
    kquota, applied, sandbox, expects, choice
):
    """The configuration may have the id of the responding cluster while the outcome has another one."""
    (path,) = (applied / ".kquota/outcomes").glob("*.json")
    document = json.loads(path.read_text())
    own_id, second_id = document["clusterId"], "another-cluster-000000"
    path.write_text(json.dumps(document | {"clusterId": second_id}))
    if expects != "nothing":
        with (applied / "kquota.yaml").open("a") as file:
            file.write(f"  expectedClusterId: {own_id if expects == 'the own id' else second_id}\n")
    ran = kquota("rollback", str(path), "--yes", *choice)
    assert ran.code == 3
    assert second_id in ran.err
    assert rate(sandbox) == TEN
    assert '"overrides":[\n]' in (applied / ".kquota/inventory.json").read_text()


@pytest.mark.parametrize(
    ("words", "code", "hint"),
    [
        (("user=alise", "producer_byte_rate=5Mi"), 3, "--new-entity"),
        (("user=a", "producer_byte_rate=5"), 3, "--any-value"),
        (("user=a", "producer_byte_rate=5Mi", "--bootstrap-server", "b:1"), 1, "--here"),
    ],
)
@pytest.mark.usefixtures("applied")
def test_a_probable_mistake_needs_an_option(kquota, sandbox, words, code, hint):
    ran = kquota("override", *words, "--for", "2h", "--reason", "x", "--yes")
    assert ran.code == code
    assert f"pass {hint}" in ran.err
    assert sandbox.values() == {USER_A: {"producer_byte_rate": TEN}}


def test_an_override_by_address_works_beside_a_project_and_before_one_exists(
    kquota, applied, sandbox
):
    """During an incident, neither a folder with records of a project nor an override of the project may block it."""
    override = ("override", "user=b", "producer_byte_rate=5Mi", "--for", "2h", "--reason", "x")
    by_address = (
        *override,
        "--yes",
        "--here",
        "--new-entity",
        "--bootstrap-server",
        sandbox.bootstrap,
    )
    assert kquota(*by_address).code == 0
    assert kquota("apply", "--yes").code == 0
    (applied / ".kquota/inventory.json").unlink()
    assert kquota(*by_address).code == 0
    assert kquota("apply", "--yes").code == 0


def test_overrides_begin_and_end_where_no_document_declares_anything(kquota, folder, sandbox):
    """The guard against an empty set of documents protects limits from removal; an override removes only its own."""
    where = ("--bootstrap-server", sandbox.bootstrap, "--yes")
    override = ("producer_byte_rate=5Mi", "--for", "2h", "--reason", "x")
    for user in ("user=a", "user=b"):
        assert kquota("override", user, *override, *where, "--here", "--new-entity").code == 0
    for user in ("user=a", "user=b"):
        assert kquota("override", "end", user, *where).code == 0
    assert sandbox.values() == {}


def test_an_override_ends_after_all_documents_of_the_cluster_were_removed(kquota, applied, sandbox):
    assert kquota("override", "user=a", "producer_byte_rate=50Mi", *BRIEFLY).code == 0
    second_cluster = CLUSTER.format(name="other", bootstrap="unused:9092")
    with (applied / "kquota.yaml").open("a") as file:
        _ = file.write(f"---\n{second_cluster}")
    manifests(applied, quota("b", cluster="other"))
    ran = kquota("override", "end", "--expired", "--cluster", "prod", "--yes")
    assert (ran.code, rate(sandbox)) == (0, TEN)
    assert kquota("apply", "--cluster", "prod", "--yes").code == 3


def test_a_cluster_with_a_new_name_continues_with_its_records(kquota, applied, sandbox):
    for file in (applied / "kquota.yaml", applied / "quotas/all.yaml"):
        file.write_text(file.read_text().replace("name: prod", "name: europe"))
    refused = kquota("apply", "--yes")
    assert refused.code == 3
    assert "are those of project 'prod', not of 'europe'" in refused.err
    assert "kquota apply --take-over" in refused.err
    override = ("user=a", "producer_byte_rate=5Mi", "--for", "2h", "--reason", "x", "--yes")
    assert kquota("override", *override).code == 0
    assert kquota("override", "end", "user=a", "--yes").code == 0
    assert kquota("apply", "--yes").code == 3
    assert kquota("apply", "--yes", "--take-over").code == 0
    assert kquota("apply", "--yes").code == 0
    assert rate(sandbox) == TEN


@pytest.fixture
def two_projects(folder, sandbox):
    """Two projects in one folder: both have the default place of records."""
    cluster = CLUSTER.format(name="prod", bootstrap=sandbox.bootstrap)
    cluster = cluster.replace("spec:\n", f"spec:\n  expectedClusterId: {'A' * 22}\n")
    version = "apiVersion: kafka-quotas.io/v1alpha1"
    for name in ("payments", "shop"):
        project = f"{version}\nkind: QuotaProject\nmetadata: {{name: {name}}}\nspec: {{}}\n"
        (folder / f"{name}.yaml").write_text(f"{project}---\n{cluster}")
        (folder / f"{name}-quotas.yaml").write_text(quota(name))
    return folder


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("apply", "shop-quotas.yaml", "--yes"), 3),
        (("apply", "shop-quotas.yaml", "--yes", "--no-inventory", "--take-over"), 1),
        (("drift",), 3),
        (("drift", "--read-only"), 3),
        (("doctor",), 1),
        (("plan", "shop-quotas.yaml"), 0),
        (("plan", "shop-quotas.yaml", "--offline"), 0),
    ],
)
def test_records_of_another_project_are_refused_before_anything_is_sent(
    kquota, two_projects, sandbox, words, code
):
    assert kquota("apply", "payments-quotas.yaml", "--project", "payments.yaml", "--yes").code == 0
    records = (two_projects / ".kquota/inventory.json").read_bytes()
    ran = kquota(*words, "--project", "shop.yaml")
    assert ran.code == code
    is_told = "are those of project 'payments/prod', not of 'shop/prod'" in " ".join(
        (ran.out + ran.err).split()
    )
    assert is_told is ("--no-inventory" not in words)
    assert list(sandbox.values()) == [(("user", "payments"),)]
    assert (two_projects / ".kquota/inventory.json").read_bytes() == records


def test_records_that_were_taken_over_are_refused_to_the_project_before(
    kquota, two_projects, sandbox
):
    shop = ("shop-quotas.yaml", "--project", "shop.yaml")
    payments = ("payments-quotas.yaml", "--project", "payments.yaml")
    assert kquota("apply", *payments, "--yes").code == 0
    assert "is refused without --take-over" in " ".join(kquota("plan", *shop).out.split())
    assert kquota("apply", *shop, "--yes", "--take-over").code == 0
    assert kquota("apply", *payments, "--yes").code == 3
    assert kquota("apply", *payments, "--yes", "--take-over").code == 0, "there is no change"
    assert kquota("apply", *shop, "--yes").code == 3
    assert len(sandbox.values()) == 2


@pytest.mark.parametrize("command", [("describe",), ("override", "list"), ("plan",)])
def test_the_hint_names_the_all_option_only_where_the_command_has_it(kquota, two_clusters, command):
    ran = kquota(*command)
    assert ran.code == 1
    assert "choose with --cluster (prod, other)" in ran.err
    assert ("--all" in ran.err) is (command == ("plan",))
