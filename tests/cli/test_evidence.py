"""`kquota plan --evidence`: the impact on recorded use in every format, and plans without evidence."""

import json
import shutil
from pathlib import Path

import pytest

from reconciler.app.requests import EvidenceRequest
from reconciler.base import installation as extras
from reconciler.base.clock import SystemClock
from reconciler.errors import UsageError
from reconciler.sandbox.settings import SandboxSettings
from reconciler.usage.samples import DAY_MS
from tests.cli.brokers import SandboxThread
from tests.cli.projects import manifests, project, quota
from tests.evidence.store.evidence import busy, published
from tests.forge.github_api import GitHubApi

CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAA"
MIB = 2**20
USER_A, USER_B = (("user", "a"),), (("user", "b"),)
LIVE = {USER_A: {"producer_byte_rate": 20.0 * MIB}, USER_B: {"producer_byte_rate": 20.0 * MIB}}
POLICY = """\
  simulate:
    failOn: {newThrottledPerDay: 10m, maxDelay: 60s}
    tiers:
      batch: {share: 1, maxDelay: 9999h, entities: [{user: {prefix: batch-}}]}
"""
TELEMETRY = "  telemetry: {evidenceUri: evidence, maxEvidenceAge: 36h}\n"


def today_ms() -> int:
    """The last midnight, at which whole days of evidence end."""
    return round(SystemClock().now() * 1000) // DAY_MS * DAY_MS


@pytest.fixture
def cluster(folder, sandbox: SandboxThread):
    """`a` sends 15 MiB/s for one hour a day, `b` almost nothing; both may send 20, and the documents declare 10."""
    project(folder, sandbox.bootstrap, quota("a"), quota("b"), more=TELEMETRY)
    text = (folder / "kquota.yaml").read_text()
    (folder / "kquota.yaml").write_text(
        text.replace("  manifests: [quotas]\n", "  manifests: [quotas]\n" + POLICY)
    )
    sandbox.seed(LIVE)
    return sandbox


@pytest.fixture(scope="module")
def published_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Evidence of two days, published once."""
    folder = tmp_path_factory.mktemp("published")
    limits = {"a": 20.0 * MIB, "b": 20.0 * MIB}
    use = {"a": busy(15 * MIB), "b": busy(1000), "zoe": busy(99 * MIB)}
    _ = published(folder, CLUSTER_ID, use, end_ms=today_ms(), limits=limits)
    return folder


@pytest.fixture
def evidence(folder, cluster, published_folder):
    """A copy of the published evidence in the folder of the project."""
    _ = shutil.copytree(published_folder, folder / "evidence")


def rows_of(ran) -> dict:
    simulation = json.loads(ran.out)["simulation"]
    return {(row["user"], row["broker_id"]): row for row in simulation["rows"]}


def test_throttled_clients_are_shown_where_evidence_is_configured(kquota, evidence):
    ran = kquota("plan", "--no-inventory")
    assert ran.code == 3, ran.err
    assert "Effect by recorded use" in ran.out
    assert "1 client of 2 will be worse off, 1 client will lose records" in ran.out
    assert "user=a  produce" in ran.out
    assert "throttled on 3 of 3" in ran.out
    assert "Refused by the recorded-use policy (2)" in ran.out
    assert "1 d 23 h until" in ran.out
    assert "zoe" not in ran.out


def test_the_plan_digest_does_not_depend_on_evidence(kquota, evidence):
    with_, without = (
        json.loads(kquota("plan", "--no-inventory", "--format", "json", *more).out)
        for more in ((), ("--no-evidence",))
    )
    assert with_["digest"] == without["digest"]


def test_the_comment_on_a_pull_request_contains_the_impact(kquota, folder, evidence, monkeypatch):
    assert kquota("plan", "--out", "plan.json").code == 3
    with GitHubApi() as api:
        api.pull(7, sha="a" * 40)
        for name, value in (
            ("GITHUB_TOKEN", "ghs_workflow"),
            ("GITHUB_API_URL", api.url),
            ("GITHUB_REPOSITORY", api.repository),
            ("GITHUB_OUTPUT", str(folder / "output")),
        ):
            monkeypatch.setenv(name, value)
        ran = kquota("post", "github", "plan.json", "--pull", "7", "--outputs")
        assert ran.code == 0, ran.err
        (comment,) = [comment.body for comment in api.comments]
    assert "**Effect by recorded use**: 1 client of 2 will be worse off" in comment
    assert "Refused by the recorded-use policy (2)" in comment
    assert "refused-by-use" in (folder / "output").read_text()


# ---- where nothing can be said -----------------------------------------------------------------


def test_missing_evidence_is_reported_as_unknown_and_is_not_fatal(kquota, cluster):
    ran = kquota("plan", "--no-inventory")
    assert ran.code == 0
    assert "no evidence counts" in ran.out
    assert "evidence of prod" in ran.err


def test_missing_required_evidence_exits_5(kquota, cluster):
    assert kquota("plan", "--no-inventory", "--require-evidence").code == 5


def test_stale_evidence_is_not_used(kquota, folder, cluster):
    _ = published(
        folder / "evidence", CLUSTER_ID, {"a": busy(15 * MIB)}, end_ms=today_ms() - 5 * DAY_MS
    )
    ran = kquota("plan", "--no-inventory", "--format", "json")
    assert ran.code == 0
    assert {row["verdict"] for row in rows_of(ran).values()} == {"no data"}
    assert {row["why"] for row in rows_of(ran).values()} == {"no evidence counts"}
    assert "hours ago; 36 are allowed" in ran.err
    assert kquota("plan", "--no-inventory", "--require-evidence").code == 5


def test_evidence_of_another_cluster_is_not_used(kquota, folder, cluster):
    _ = published(folder / "other", "lkc-2", {"a": busy(15 * MIB)}, end_ms=today_ms())
    for of_table in (folder / "other").iterdir():
        (of_table / "cluster_id=lkc-2").rename(of_table / f"cluster_id={CLUSTER_ID}")
    ran = kquota("plan", "--no-inventory", "--evidence", "other", "--format", "json")
    assert ran.code == 0
    (note,) = json.loads(ran.out)["simulation"]["evidence"]
    assert "lkc-2" in note["stale"]
    assert {row["verdict"] for row in rows_of(ran).values()} == {"no data"}


def test_damaged_evidence_is_not_used(kquota, folder, evidence):
    for file in (folder / "evidence").rglob("usage_sample/**/*.parquet"):
        content = file.read_bytes()
        file.write_bytes(content[: len(content) // 2] + b"\0" * (len(content) - len(content) // 2))
    ran = kquota("plan", "--no-inventory", "--format", "json")
    assert ran.code == 0, ran.err
    assert {row["verdict"] for row in rows_of(ran).values()} == {"no data"}


def test_series_whose_bucket_changed_within_the_window_are_not_replayed(kquota, folder, cluster):
    use = {"a": busy(15 * MIB), "b": busy(1000)}
    limits = {"a": 20.0 * MIB, "b": 20.0 * MIB}
    _ = published(
        folder / "evidence", CLUSTER_ID, use, end_ms=today_ms(), limits=limits, clients=["app"]
    )
    ran = kquota("plan", "--no-inventory", "--format", "json")
    assert ran.code == 0
    assert {(row["verdict"], row["why"]) for row in rows_of(ran).values()} == {
        ("not identifiable", "a series with the same names was recorded under other limits")
    }


def test_a_label_without_a_tier_is_a_warning(kquota, folder, evidence, cluster):
    labelled = quota("a").replace(
        "  namespace: team\n", "  namespace: team\n  labels: {kafka-quotas.io/tier: platinum}\n"
    )
    project(folder, cluster.bootstrap, labelled, more=TELEMETRY)
    ran = kquota("plan", "--no-inventory")
    assert "unknown tier 'platinum'; tiers are batch, gold, silver" in ran.err


def test_an_offline_plan_with_a_snapshot_reads_evidence(kquota, folder, evidence):
    (folder / "now.json").write_text(kquota("snapshot").out)
    ran = kquota("plan", "--offline", "--snapshot", "now.json", "--no-inventory")
    assert ran.code == 3, ran.err
    assert "1 client of 2 will be worse off" in ran.out


def test_an_unknown_cluster_id_is_reported(kquota, folder, evidence):
    ran = kquota("plan", "--offline", "--no-inventory")
    assert ran.code == 0
    assert "the cluster id is not known" in ran.err


def test_an_invalid_address_is_an_error_of_the_option(kquota, cluster):
    ran = kquota("plan", "--no-inventory", "--evidence", "gopher://x/y")
    assert ran.code == 1
    assert "gopher" in ran.err


def test_contradictory_options_are_refused():
    with pytest.raises(UsageError, match="contradicts"):
        EvidenceRequest(evidence="auto", no_evidence=True, require_evidence=True)


def test_a_missing_extra_is_a_warning_unless_evidence_is_required(kquota, evidence, monkeypatch):
    monkeypatch.setitem(extras.MODULES, "usage", ("a_module_that_nobody_has",))
    ran = kquota("plan", "--no-inventory")
    assert ran.code == 0
    assert "pip install '.[usage]'" in ran.err
    assert kquota("plan", "--no-inventory", "--require-evidence").code == 1
    assert kquota("plan", "--no-inventory", "--evidence", "evidence").code == 1


def test_with_a_custom_quota_callback_the_impact_is_unknown(kquota, folder):
    own = {"client.quota.callback.class": "com.example.Own"}
    settings = SandboxSettings(cluster_id=CLUSTER_ID, broker_settings=own)
    with SandboxThread(settings) as running:
        running.seed(LIVE)
        project(folder, running.bootstrap, quota("a"), more=TELEMETRY)
        use = {"a": busy(15 * MIB)}
        _ = published(folder / "evidence", CLUSTER_ID, use, end_ms=today_ms())
        ran = kquota("plan", "--no-inventory")
    assert ran.code == 0
    assert "cannot be known: a custom quota callback decides what is counted together" in ran.out


@pytest.mark.parametrize("evidence", ["", " "])
def test_an_empty_address_is_refused(kquota, cluster, evidence):
    ran = kquota("plan", "--no-inventory", "--evidence", evidence)
    assert ran.code == 1
    assert "--evidence is empty" in ran.err


def test_a_relative_address_is_relative_to_the_project_for_any_working_directory(
    kquota, folder, evidence, monkeypatch
):
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    ran = kquota("plan", "--no-inventory", "--project", folder / "kquota.yaml")
    assert ran.code == 3, ran.err
    assert "1 client of 2 will be worse off" in ran.out


def test_a_store_that_does_not_answer_is_reported_and_is_not_fatal(kquota, cluster, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    ran = kquota("plan", "--no-inventory", "--evidence", "s3://b/x", "--format", "json")
    assert ran.code == 0, ran.err
    assert "could not be reached" in ran.err
    assert {row["verdict"] for row in rows_of(ran).values()} == {"no data"}


BUDGET = """\
  budgets:
    - {name: broker, basis: Observed, mode: Warn, limits: {producerByteRate: 100Mi}}
"""


def test_a_budget_is_compared_with_the_use_of_all_clients_under_the_limits_of_the_plan(
    kquota, folder, evidence
):
    with (folder / "kquota.yaml").open("a") as project_file:
        project_file.write(BUDGET)
    ran = kquota("plan", "--no-inventory", "--format", "json")
    document = json.loads(ran.out)
    (use,) = document["budgets"]
    assert use["basis"] == "Observed"
    # Zoe sends 99 MiB/s in the same hour, and no limit of the plan is hers.
    assert use["before"] == pytest.approx((15 + 99) * MIB, rel=0.001)
    assert use["after"] == pytest.approx((10 + 99) * MIB, rel=0.001)
    assert [words for words in document["warnings"] if "would be observed" in words]
    without = json.loads(kquota("plan", "--no-inventory", "--no-evidence", "--format", "json").out)
    (use,) = without["budgets"]
    assert (use["basis"], use["after"]) == ("Promised", 20 * MIB)
    assert use["note"] == "no recorded use was read"


def test_a_budget_by_recorded_use_refuses_a_raise_while_it_is_exceeded(kquota, folder, evidence):
    text = (folder / "kquota.yaml").read_text() + BUDGET.replace("Warn", "Refuse")
    (folder / "kquota.yaml").write_text(text)
    manifests(
        folder, quota("a", "{producerByteRate: 20Mi}"), quota("b", "{producerByteRate: 21Mi}")
    )
    ran = kquota("plan", "--no-inventory", "--format", "json")
    assert ran.code == 3
    (violation,) = json.loads(ran.out)["violations"]
    assert violation["text"] == "user=b"
    assert "114 MiB/s would be observed, 114 MiB/s before" in violation["message"].replace("≈ ", "")


@pytest.mark.parametrize("wrong", ["not there", "too old"])
def test_without_usable_evidence_a_budget_says_why_it_is_the_promised_sum(
    kquota, folder, evidence, wrong
):
    text = (folder / "kquota.yaml").read_text() + BUDGET
    if wrong == "not there":
        text = text.replace("evidenceUri: evidence", "evidenceUri: nowhere")
    (folder / "kquota.yaml").write_text(text.replace("maxEvidenceAge: 36h", "maxEvidenceAge: 1s"))
    ran = kquota("plan", "--no-inventory", "--format", "json")
    assert ran.code == 0, ran.err
    (use,) = json.loads(ran.out)["budgets"]
    assert (use["basis"], use["after"]) == ("Promised", 20 * MIB)
    assert use["note"] not in {"", "no recorded use was read"}
