"""The shipped workflows and actions, executed: plan, comment, squash merge, apply of the reviewed plan, drift."""

import html
import re
from dataclasses import dataclass

import pytest

from tests.cli.projects import quota
from tests.forge import openapi
from tests.forge.code_host import Workbench
from tests.forge.github_api import GitHubApi
from tests.servers import raw_quotas
from tests.servers.jars import NEWEST
from tests.servers.properties import Listener

pytestmark = pytest.mark.integration

PROJECT = """\
apiVersion: kafka-quotas.io/v1alpha1
kind: QuotaProject
spec:
  manifests: [quotas]
  inventory: {gitRef: refs/kquota/inventory}
---
apiVersion: kafka-quotas.io/v1alpha1
kind: QuotaCluster
metadata:
  name: prod
spec:
  bootstrapServers: ${env:QUOTA_BOOTSTRAP}
"""
RATE = "producer_byte_rate"
ARTIFACTS = "https://github.com/octo/quotas/actions/runs/1/artifacts"


@dataclass(frozen=True)
class Broker:
    """A broker as another client sees it: its quotas by raw bytes."""

    bootstrap: str

    @property
    def port(self) -> int:
        return int(self.bootstrap.rpartition(":")[2])

    def users(self) -> dict[str, float]:
        """User -> producer rate."""
        return {
            dict(subject)["user"]: values[RATE]
            for subject, values in raw_quotas.describe(self.port).items()
        }

    def set(self, user: str, rate: float) -> None:
        """Change a limit outside kquota."""
        raw_quotas.alter(self.port, {raw_quotas.entity(user=user): {RATE: rate}})


@pytest.fixture
def api():
    with GitHubApi(openapi.github()) as running:
        yield running
    assert running.complaints == []


@pytest.fixture
def broker(empty_kafka) -> Broker:
    """A real broker without quotas."""
    return Broker(empty_kafka(NEWEST).bootstrap())


@pytest.fixture
def simulated(sandbox) -> Broker:
    return Broker(sandbox.bootstrap)


def begun(folder, api, broker, **files) -> Workbench:
    """A repository whose main branch has the project file and document a, which was applied manually."""
    workbench = Workbench(folder, api, broker.bootstrap)
    workbench.git("checkout", "-q", "-b", "main")
    workbench.write(**({"kquota_yaml": PROJECT, "quotas__a_yaml": quota("a")} | files))
    workbench.commit("begin")
    workbench.applied_by_hand()
    return workbench


@pytest.fixture
def begun_there(tmp_path, api, broker) -> Workbench:
    return begun(tmp_path, api, broker)


@pytest.fixture
def bench(tmp_path, api, simulated) -> Workbench:
    return begun(tmp_path, api, simulated)


def proposed(bench: Workbench, number: int, branch: str, **files: str) -> None:
    """A pull request with these files."""
    bench.branch(branch)
    bench.write(**files)
    bench.commit()
    bench.propose(number, branch)


def visible_text(body: str) -> str:
    """The visible text of a comment."""
    return html.unescape(re.sub(r"</?code>", "", body))


# ---- on a real broker, too ---------------------------------------------------------------------


def test_a_plan_is_commented_merged_by_squash_applied_and_verified(begun_there, api, broker):
    proposed(begun_there, 7, "change", quotas__b_yaml=quota("b", "{producerByteRate: 20Mi}"))
    planned = begun_there.plan(7)
    assert planned.ok, planned.log
    (body,) = api.bodies(7)
    assert body.startswith("<!-- kquota:plan:prod -->\n### ✅ Ready: Kafka quotas of prod\n")
    assert "1 to create on 1 entity" in body
    assert "| `user=b`<br>`producer_byte_rate` | no limit | 20 MiB/s | newly limited |" in body
    assert f"commit `{api.pulls[7].sha[:12]}`" in body
    assert f"[HTML page]({ARTIFACTS}/kquota-page-prod)" in body
    page = planned.artifacts["kquota-page-prod"].read_text()
    assert page.startswith("<!DOCTYPE html>")
    assert "20971520" in page
    assert planned.summary.strip() in body.replace(
        f"[HTML page]({ARTIFACTS}/kquota-page-prod) · ", ""
    )
    assert {
        name: planned.outputs[name]
        for name in ("create", "update", "remove", "drift", "has-changes")
    } == {"create": "1", "update": "0", "remove": "0", "drift": "0", "has-changes": "true"}
    assert planned.outputs["comment-id"] == str(api.comments[0].id)
    assert broker.users() == {"a": 10485760.0}

    begun_there.write(quotas__b_yaml=quota("b", "{producerByteRate: 30Mi}"))
    begun_there.branch("change", "origin/change")
    begun_there.write(quotas__b_yaml=quota("b", "{producerByteRate: 30Mi}"))
    begun_there.commit()
    begun_there.propose(7, "change")
    planned = begun_there.plan(7)
    (body,) = api.bodies(7)
    assert "30 MiB/s" in body

    applied = begun_there.push(begun_there.squash(7))
    assert applied.ok, applied.log
    assert broker.users() == {"a": 10485760.0, "b": 31457280.0}
    assert applied.outputs["complete"] == "true"
    assert applied.outputs["digest"] == planned.outputs["digest"]
    outcome = api.bodies(7)[1]
    assert "### ✅ Applied: Kafka quotas of prod" in outcome
    assert "1 of 1 change applied and shown by the brokers** by " in outcome
    assert f"at commit `{api.pulls[7].merged_as[:12]}`" in outcome
    assert "**Undo**: `kquota rollback outcome.json --cluster prod`" in outcome
    assert f"[`outcome.json`]({ARTIFACTS}/kquota-outcome-prod)" in outcome
    again = begun_there.dispatch("quotas-plan-main.yml")
    assert (again.outputs["has-changes"], again.outputs["exit-code"]) == ("false", "0")


def test_a_broker_that_changed_since_the_review_makes_the_plan_stale_with_the_difference(
    begun_there, api, broker
):
    proposed(begun_there, 7, "change", quotas__a_yaml=quota("a", "{producerByteRate: 20Mi}"))
    assert begun_there.plan(7).ok
    broker.set("a", 12345678.0)
    applied = begun_there.push(begun_there.squash(7))
    assert not applied.ok
    assert applied.outputs["exit-code"] == "4"
    assert broker.users() == {"a": 12345678.0}
    text = visible_text(api.bodies(7)[1])
    assert "no longer fits" in text
    assert "user=a producer_byte_rate" in text
    assert "12345678" in text
    assert "12345678" in visible_text(applied.summary)


AUTHENTICATED = (
    PROJECT
    + """\
  properties:
    security.protocol: SASL_PLAINTEXT
    sasl.mechanism: SCRAM-SHA-512
    sasl.username: ${env:QUOTA_USER}
    sasl.password: ${env:QUOTA_PASSWORD}
"""
)


def test_the_documented_rights_are_sufficient_and_no_secret_is_shown(tmp_path, api, kafka):
    cluster = kafka(NEWEST, listeners=(Listener.PLAINTEXT, Listener.SASL_PLAINTEXT), acls=True)
    raw_quotas.clear(cluster.port())
    bench = Workbench(tmp_path, api, cluster.bootstrap(Listener.SASL_PLAINTEXT))
    bench.git("checkout", "-q", "-b", "main")
    bench.write(kquota_yaml=AUTHENTICATED, quotas__a_yaml=quota("forge-a"))
    bench.commit("begin")
    looked = bench.dispatch("quotas-plan-main.yml")
    assert "not by the broker" in visible_text(
        looked.summary
    )  # the planner may not alter, so it may not validate
    assert bench.dispatch("quotas-apply.yml", digest=looked.outputs["digest"]).ok
    proposed(bench, 7, "change", quotas__b_yaml=quota("forge-b"))
    planned = bench.plan(7)
    assert planned.ok, planned.log
    applied = bench.push(bench.squash(7))
    assert applied.ok, applied.log
    assert set(Broker(f"127.0.0.1:{cluster.port()}").users()) == {"forge-a", "forge-b"}
    drift = bench.dispatch("quotas-drift.yml")
    assert drift.outputs["has-drift"] == "false"
    everything = "".join(str(text) for text in (looked, planned, applied, drift, api.comments))
    assert "planner-secret" not in everything
    assert "applier-secret" not in everything


# ---- hostile and broken ------------------------------------------------------------------------


# ---- what was reviewed -------------------------------------------------------------------------


def test_a_merge_with_more_than_the_reviewed_changes_is_refused(bench, api, simulated):
    proposed(bench, 7, "change", quotas__b_yaml=quota("b"))
    assert bench.plan(7).ok
    bench.branch("change", "origin/change")
    bench.write(quotas__z_yaml=quota("z"))
    bench.commit()
    api.pulls[7].sha, reviewed = bench.git("rev-parse", "HEAD"), api.pulls[7].sha
    commit = bench.squash(7)
    applied = bench.push(commit)
    assert not applied.ok
    assert "there is no reviewed plan" in applied.log
    api.pulls[7].sha = reviewed  # even if the host reports that it was
    applied = bench.push(commit)
    assert not applied.ok
    assert applied.outputs["exit-code"] == "4"
    assert "user=z" in applied.log
    assert simulated.users() == {"a": 10485760.0}


# ---- forks -------------------------------------------------------------------------------------


def test_a_fork_is_planned_without_a_cluster_and_commented_by_the_privileged_workflow(bench, api):
    proposed(bench, 9, "fork", quotas__b_yaml=quota("b"))
    api.pulls[9].head_repo = "mallory/quotas"
    planned = bench.plan(9)
    assert planned.ok, planned.log
    assert api.comments == []
    ran = bench.comment_on_fork(api.pulls[9], planned.artifacts["kquota-plan-prod"])
    assert ran.ok, ran.log
    (body,) = api.bodies(9)
    assert "a run of the fork mallory/quotas wrote the text below" in visible_text(body)
    assert "user=b" in body


# ---- overrides ---------------------------------------------------------------------------------


def test_an_expired_override_ends_on_schedule_and_nothing_else_is_written(begun_there, broker):
    code, text = begun_there.typed(
        "kquota override user=a producer_byte_rate=20Mi --for 2s --reason storm --yes"
    )
    assert code == 0, text
    assert broker.users() == {"a": 20971520.0}
    begun_there.write(quotas__b_yaml=quota("b"))
    begun_there.commit("declared, and not applied yet")
    for _ in range(9):  # the first runs may come before its end
        ran = begun_there.dispatch("quotas-ends.yml")
        assert ran.ok, ran.log
        if broker.users() != {"a": 20971520.0}:
            break
    assert broker.users() == {"a": 10485760.0}


# ---- drift -------------------------------------------------------------------------------------


def test_drift_opens_one_issue_and_recovery_closes_it(bench, api, simulated):
    assert bench.dispatch("quotas-drift.yml").outputs["has-drift"] == "false"
    assert api.issues == []
    simulated.set("a", 777.0)
    ran = bench.dispatch("quotas-drift.yml")
    assert ran.ok, ran.log
    assert ran.outputs["drift"] == "1"
    assert bench.dispatch("quotas-drift.yml").ok
    (issue,) = api.issues
    assert "user=a" in issue.body
    assert "777" in visible_text(issue.body)
    assert ran.outputs["issue"] == str(issue.number)
    simulated.set("a", 10485760.0)
    assert bench.dispatch("quotas-drift.yml").ok
    assert issue.state == "closed"
    assert len(api.sent("POST")) == 2


# ---- installing --------------------------------------------------------------------------------
