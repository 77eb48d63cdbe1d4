"""The examples that propose recommended limits: one lake, the scripts of both code hosts, hosts with checks."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from reconciler.base.clock import SystemClock
from reconciler.evidence.store import scrape_interval
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.state import QuotaState
from reconciler.usage.samples import DAY_MS, Cadence, day_of
from reconciler.usage.tables import USAGE_SAMPLE
from tests.cli.recommendations import PROD, manifest, project, quota
from tests.evidence.spark import lakes, replays
from tests.forge.code_host import ROOT
from tests.forge.github_api import Account, GitHubApi
from tests.forge.gitlab_api import GitLabApi
from tests.forge.test_pull_request import BRANCH, RIGHTS
from tests.git.commits import git, repository

EXAMPLES = ROOT / "examples"
GITLAB = yaml.safe_load((EXAMPLES / "gitlab" / "recommendations.yml").read_text())["recommend"]
(GITHUB,) = yaml.safe_load((EXAMPLES / "github" / "recommendations.yml").read_text())[
    "jobs"
].values()
PROPOSAL = "proposals/prod.yaml"
STEP_MS = 300_000


def fill_lake(folder: Path) -> None:
    """Twenty days of user alice until now, at a tenth of her limit."""
    lake = lakes.lake(folder)
    first = (round(SystemClock().now() * 1000) // DAY_MS - 20) * DAY_MS
    state = QuotaState().with_values([(entity(user="alice"), Key.PRODUCER_BYTE_RATE, 100_000.0)])
    replays.looked(lake, PROD, state, first + 5)
    pacing = scrape_interval.inputs(Cadence(step_ms=STEP_MS, max_gap_ms=STEP_MS))
    for begin in range(first, first + 20 * DAY_MS, DAY_MS):
        rows = [
            {
                "quota_type": "produce",
                "group_kind": "user",
                "user": "alice",
                "broker_id": "1",
                "ts_ms": begin + number * STEP_MS + 7,
                "dt_ms": STEP_MS,
                "rate_units": 10_000 + number * 7919 % 701,
                "throttle_ms": 0,
                "censored": "no",
            }
            for number in range(DAY_MS // STEP_MS)
        ]
        replays.commit(lake, USAGE_SAMPLE, PROD, day_of(begin), rows, **pacing)


def run_script(
    lines: list[str], folder: Path, **variables: str
) -> "subprocess.CompletedProcess[str]":
    """Run lines like a runner, with kquota installed and only these variables."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name in {"JAVA_HOME", "XDG_CACHE_HOME", "HOME", "LANG"}
    } | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(
        ["bash", "-eo", "pipefail", "-c", "\n".join(lines)],
        cwd=folder,
        env=environment | variables,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone with a project, a document of alice, and a lake outside of it."""
    folder = repository(tmp_path / "clone")
    project(folder)
    manifest(folder, "alice.yaml", quota("alice", "producerByteRate: 100000"))
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "main")
    fill_lake(tmp_path / "lake")
    (folder / "kquota-results").mkdir()
    return folder


@pytest.mark.integration
def test_recommended_limits_become_a_merge_request_and_a_pull_request(
    clone: Path, tmp_path: Path
) -> None:
    script = [line for line in GITLAB["script"] if "apt-get" not in line]
    with GitLabApi() as host:
        variables = {
            "CI": "true",
            "CI_API_V4_URL": host.url,
            "CI_PROJECT_ID": host.project,
            "CI_JOB_URL": "https://gitlab.example/team/quotas/-/jobs/1",
            "GITLAB_TOKEN": "glpat-bot",
            "KQUOTA_LAKE": str(tmp_path / "lake"),
        }
        first = run_script(script, clone, **variables)
        assert first.returncode == 0, first.stderr
        (merge_request,) = host.opened
        assert merge_request.branch == BRANCH
        assert "alice" in merge_request.description
        assert variables["CI_JOB_URL"] in merge_request.description
        text = (clone / PROPOSAL).read_text()
        assert host.git.text(BRANCH, PROPOSAL) == text
        again = run_script(script[-1:], clone, **variables)
        assert "unchanged" in again.stderr
        unwelcome = run_script(script[-1:], clone, **variables | {"GITLAB_TOKEN": "glpat-reader"})
        assert unwelcome.returncode == 1
        assert [merge.state for merge in host.opened] == ["opened"]
    assert host.complaints == []
    (limit,) = (
        document["spec"]["limits"]["producerByteRate"]
        for document in yaml.safe_load_all(text)
        if document
    )
    assert limit < 100_000
    # The example of the other host proposes the recommendations of this run.
    (clone / "kquota-results" / "recommendations.json").rename(tmp_path / "recommendations.json")
    with GitHubApi() as github:
        github.accounts["ghs_workflow"] = Account("github-actions[bot]", RIGHTS, is_app=True)
        posted = run_script(
            [GITHUB["steps"][-1]["run"]],
            clone,
            GITHUB_TOKEN="ghs_workflow",  # noqa: S106 - a token of the fake
            GITHUB_API_URL=github.url,
            GITHUB_REPOSITORY=github.repository,
            RUNNER_TEMP=str(tmp_path),
            RUN="https://github.com/octo/quotas/actions/runs/1",
        )
        assert posted.returncode == 0, posted.stderr
        assert "alice" in github.pulls[1].body
        assert github.git.text(BRANCH, PROPOSAL) == text
    assert github.complaints == []
    assert json.loads((tmp_path / "recommendations.json").read_text())["recommendations"]


def test_the_examples_recommend_by_the_same_command_and_apply_nothing() -> None:
    """Only the path of the result differs; only the last command has the token of the host."""
    recommend = "kquota spark recommend --cluster prod --out proposals --format json"
    by_github = [step for step in GITHUB["steps"] if "run" in step]
    scripts = {"gitlab": GITLAB["script"][-2:], "github": [step["run"] for step in by_github]}
    for host, (first, second) in scripts.items():
        assert recommend in first
        assert second.startswith(f"kquota post recommendations {host} ")
        assert "--folder proposals --label prod" in second
        assert second.endswith(" --required")
        assert "apply" not in first + second
    assert GITLAB["script"][-2].startswith("env -u GITLAB_TOKEN ")
    assert "GITHUB_TOKEN" not in by_github[0]["env"]


def test_a_gitlab_schedule_runs_one_of_both_jobs() -> None:
    drift = yaml.safe_load((EXAMPLES / "gitlab" / ".gitlab-ci.yml").read_text())["drift"]
    (recommended,), (drifted,) = GITLAB["rules"], drift["rules"]
    assert '$QUOTA_SCHEDULE == "recommend"' in recommended["if"]
    assert '$QUOTA_SCHEDULE != "recommend"' in drifted["if"]
    assert "$CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH" in recommended["if"]
    assert GITLAB["environment"] not in {"kafka-plan", "kafka-drift", "kafka-prod"}
