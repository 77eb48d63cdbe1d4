"""Changes outside the documents: drift, overrides, rollbacks."""

import json
import shlex
import shutil
from pathlib import Path

import pytest

from reconciler.inventory.file_lock import FileLock
from tests.cli.projects import CLUSTER, manifests, project, quota

USER_A = (("user", "a"),)
TEN = 10485760.0


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
    resolved = kquota("resolve", "--user", "a", "--format", "json")
    (client,) = json.loads(resolved.out)["clients"]
    assert "INC-1" in client["limits"]["producer_byte_rate"]["temporary"]
    assert (
        "producer_byte_rate is temporary: user=a 52428800 (50 MiB/s), override by" in resolved.err
    )
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
        (
            (
                "ip=::ffff:1.2.3.4",
                "connection_creation_rate=9",
                "--for",
                "1h",
                "--reason",
                "x",
                "-y",
            ),
            "hint: write 1.2.3.4",
        ),
        (
            ("ip=127.1", "connection_creation_rate=9", "--for", "1h", "--reason", "x", "-y"),
            "would take every limit off that address",
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
    assert "Drift is unknown." in ran.out
    assert "No drift" not in ran.out


def test_an_apply_without_an_inventory_does_not_say_that_limits_become_managed(
    kquota, folder, sandbox
):
    project(folder, sandbox.bootstrap, quota("a"), quota("b"))
    sandbox.seed({USER_A: {"producer_byte_rate": TEN}})
    ran = kquota("apply", "--yes", "--no-inventory")
    assert ran.code == 0
    assert "1 of 1 change applied" in ran.out
    assert "1 limit already live as declared" in ran.out
    assert "no limit becomes managed" in ran.out
    assert "now managed" not in ran.out
    assert "the first apply records" not in ran.out
    (outcome,) = (folder / ".kquota/outcomes").iterdir()
    assert json.loads(outcome.read_text())["adopted"] == 0


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


def test_an_override_in_force_is_ended_from_the_records_without_readable_manifests(
    kquota, applied, sandbox
):
    words = ("--for", "1h", "--reason", "x", "--yes")
    assert kquota("override", "user=a", "producer_byte_rate=50Mi", *words).code == 0
    manifests(applied, "nonsense: [")
    ran = kquota("override", "end", "user=a", "--yes")
    assert (ran.code, rate(sandbox)) == (0, TEN)
    assert "temporary limit ended  team/a" in ran.out  # The document: no file was read.


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


def test_a_rollback_that_is_refused_names_each_user_whose_value_it_is(kquota, applied, sandbox):
    """All changes of a rollback are restored or none, so a message with the value alone does not say whose it is."""
    for name, value in (("b", 100.0), ("c", 200.0)):
        sandbox.seed({(("user", name),): {"producer_byte_rate": value}})
    manifests(applied, *(quota(name, "{producerByteRate: 20Mi}") for name in "abc"))
    assert kquota("apply", "--yes", "--max-change-factor", "1e9").code == 0
    ran = kquota("rollback", "--last", "--yes")
    assert ran.code == 3
    assert "user=b: producerByteRate 100 B/s is below" in ran.err
    assert "user=c: producerByteRate 200 B/s is below" in ran.err


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


def test_an_apply_that_takes_records_over_does_not_say_that_it_is_refused(kquota, two_projects):
    assert kquota("apply", "payments-quotas.yaml", "--project", "payments.yaml", "--yes").code == 0
    ran = kquota("apply", "shop-quotas.yaml", "--project", "shop.yaml", "--yes", "--take-over")
    assert ran.code == 0
    assert "not of 'shop/prod': this apply takes them over" in ran.out
    assert "refused" not in ran.out


@pytest.mark.parametrize("command", [("describe",), ("override", "list"), ("plan",)])
def test_the_hint_names_the_all_option_only_where_the_command_has_it(kquota, two_clusters, command):
    ran = kquota(*command)
    assert ran.code == 1
    assert "choose with --cluster (prod, other)" in ran.err
    assert ("--all" in ran.err) is (command == ("plan",))
