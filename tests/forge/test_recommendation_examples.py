"""The examples that propose recommended limits: their scripts with git, a bare repository, and a `gh` that only writes down its calls."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from reconciler.base.clock import SystemClock
from reconciler.evidence.store import recorded_window
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.state import QuotaState
from reconciler.usage.samples import DAY_MS, Cadence, day_of
from reconciler.usage.tables import USAGE_SAMPLE
from tests.cli.recommendations import PROD, manifest, project, quota
from tests.evidence.analysis import lakes, replays
from tests.forge.code_host import ROOT
from tests.git.commits import git, repository

EXAMPLES = ROOT / "examples"
GITLAB = yaml.safe_load((EXAMPLES / "gitlab" / "recommendations.yml").read_text())["recommend"]
(GITHUB,) = yaml.safe_load((EXAMPLES / "github" / "recommendations.yml").read_text())[
    "jobs"
].values()
PROPOSAL = "proposals/prod.yaml"
BRANCH = "kquota/recommendations-prod"
STEP_MS = 300_000


def fill_lake(folder: Path) -> None:
    """Twenty days of user alice until now, at a tenth of her limit."""
    lake = lakes.lake(folder)
    first = (round(SystemClock().now() * 1000) // DAY_MS - 20) * DAY_MS
    state = QuotaState().with_values([(entity(user="alice"), Key.PRODUCER_BYTE_RATE, 100_000.0)])
    replays.looked(lake, PROD, state, first + 5)
    pacing = recorded_window.cadence_inputs(Cadence(step_ms=STEP_MS, max_gap_ms=STEP_MS))
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
    """A clone of a bare repository with a project and a document of alice, and a lake beside it."""
    folder = repository(tmp_path / "clone")
    project(folder)
    manifest(folder, "alice.yaml", quota("alice", "producerByteRate: 100000"))
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "main")
    origin = tmp_path / "team" / "quotas.git"
    git(folder, "clone", "-q", "--bare", ".", str(origin))
    git(folder, "remote", "add", "origin", str(origin))
    git(origin, "config", "receive.advertisePushOptions", "true")
    hook = origin / "hooks" / "pre-receive"
    hook.write_text('#!/bin/sh\nenv | grep "^GIT_PUSH_OPTION_[0-9]" > options || true\n')
    hook.chmod(0o755)
    fill_lake(tmp_path / "lake")
    (folder / "kquota-results").mkdir()
    return folder


@pytest.mark.integration
def test_recommended_limits_become_a_merge_request_and_a_pull_request(
    clone: Path, tmp_path: Path
) -> None:
    origin = tmp_path / "team" / "quotas.git"
    script = GITLAB["script"]
    variables = {
        "CI_DEFAULT_BRANCH": "main",
        "CI_JOB_URL": "https://gitlab.example/team/quotas/-/jobs/1",
        "CI_PROJECT_PATH": "team/quotas",
        "CI_SERVER_URL": f"file://{tmp_path}",
        "GITLAB_TOKEN": "glpat-bot",
        "KQUOTA_LAKE": str(tmp_path / "lake"),
    }
    main = git(clone, "rev-parse", "HEAD")
    first = run_script(script, clone, **variables)
    assert first.returncode == 0, first.stderr
    text = (clone / PROPOSAL).read_text()
    assert git(origin, "show", f"{BRANCH}:{PROPOSAL}") == text.strip()
    assert git(origin, "rev-parse", f"{BRANCH}^") == main
    options = (origin / "options").read_text()
    assert "=merge_request.create\n" in options
    assert f"description=Evidence: {variables['CI_JOB_URL']}/artifacts/file/" in options
    assert "alice" in (clone / "kquota-results" / "recommendations.md").read_text()
    (limit,) = (
        document["spec"]["limits"]["producerByteRate"]
        for document in yaml.safe_load_all(text)
        if document
    )
    assert limit < 100_000
    # Merged, and then only the evidence is newer: the branch goes, and with it the merge request.
    (clone / PROPOSAL).write_text(text.replace("# Evidence: ", "# Evidence: newer, "))
    merged = run_script(script[1:], clone, **variables)
    assert merged.returncode == 0, merged.stderr
    assert BRANCH not in git(origin, "branch")


def test_the_step_that_reads_recorded_use_has_no_token() -> None:
    recommend = "kquota usage recommend --cluster prod --out proposals --most 50 --format markdown"
    first, second = (step for step in GITHUB["steps"] if "run" in step)
    assert recommend in first["run"]
    assert "GH_TOKEN" in second["env"].keys() - first["env"].keys()
    (line,) = (line for line in GITLAB["script"] if recommend in line)
    assert line.startswith("env -u GITLAB_TOKEN ")


def test_a_gitlab_schedule_runs_one_of_both_jobs() -> None:
    drift = yaml.safe_load((EXAMPLES / "gitlab" / ".gitlab-ci.yml").read_text())["drift"]
    (recommended,), (drifted,) = GITLAB["rules"], drift["rules"]
    assert '$QUOTA_SCHEDULE == "recommend"' in recommended["if"]
    assert '$QUOTA_SCHEDULE != "recommend"' in drifted["if"]
    assert "$CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH" in recommended["if"]
    assert GITLAB["environment"] not in {"kafka-plan", "kafka-drift", "kafka-prod"}
