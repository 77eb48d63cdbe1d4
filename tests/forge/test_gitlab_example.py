"""The example for GitLab: its scripts run as on a runner, against a fake server with checks and the sandbox."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.cli.projects import quota
from tests.forge.code_host import ROOT
from tests.forge.test_workflows import PROJECT, Broker

pytestmark = pytest.mark.integration

EXAMPLE = yaml.safe_load(
    (ROOT / "examples" / "gitlab" / ".gitlab-ci.yml").read_text(encoding="utf-8")
)


@pytest.fixture
def broker(sandbox) -> Broker:
    return Broker(sandbox.bootstrap)


@pytest.fixture
def run(tmp_path, gitlab_api, broker):
    """`run("plan")`: run the script of a job in a new clone; return the result of the shell and the folder."""
    origin = tmp_path / "origin.git"
    git(tmp_path, "init", "-q", "--bare", "-b", "main", str(origin))

    def job(
        name: str, *, revision: str = "main", **variables: str
    ) -> tuple[subprocess.CompletedProcess, Path]:
        clone = tmp_path / f"job-{len(list(tmp_path.iterdir()))}"
        git(tmp_path, "clone", "-q", str(origin), str(clone))
        git(clone, "checkout", "-q", revision)
        environment = {
            "CI": "true",
            "CI_DEFAULT_BRANCH": "main",
            "CI_API_V4_URL": gitlab_api.url,
            "CI_PROJECT_ID": gitlab_api.project,
            "CI_JOB_URL": "https://gitlab.example/team/quotas/-/jobs/1",
            "CI_COMMIT_SHA": git(clone, "rev-parse", "HEAD"),
            "GITLAB_TOKEN": "glpat-bot",
            "QUOTA_BOOTSTRAP": broker.bootstrap,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(clone),
        }
        before = EXAMPLE[".kquota"][
            "before_script"
        ]  # its beginning installs kquota: test_isolation.py
        script = "\n".join(
            [*before[before.index("rm -rf -- kquota-results") :], *EXAMPLE[name]["script"]]
        )
        done = subprocess.run(
            ["bash", "-eo", "pipefail", "-c", script],
            cwd=clone,
            env=environment | variables,
            capture_output=True,
            text=True,
            check=False,
        )
        return done, clone

    job.origin = origin
    return job


def git(folder: Path, *words: str) -> str:
    settings = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", *settings, *words], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def commit(run, folder: Path, branch: str, **files: str) -> str:
    """Files on a branch of the origin."""
    clone = folder / f"work-{branch}"
    git(folder, "clone", "-q", str(run.origin), str(clone))
    git(clone, "checkout", "-q", "-B", branch)
    for name, text in files.items():
        path = clone / name.replace("__", "/").replace("_yaml", ".yaml")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    git(clone, "add", "-A")
    git(clone, "commit", "-q", "-m", "change")
    git(clone, "push", "-q", "origin", branch)
    return git(clone, "rev-parse", "HEAD")


def test_a_merge_request_is_planned_approved_by_digest_applied_and_watched(
    run, tmp_path, gitlab_api, broker
):
    commit(run, tmp_path, "main", kquota_yaml=PROJECT, quotas__a_yaml=quota("a"))
    head = commit(run, tmp_path, "change", quotas__b_yaml=quota("b"))
    gitlab_api.merge_requests[7] = head
    request = {"CI_MERGE_REQUEST_IID": "7"}
    done, clone = run("plan", revision="change", **request)
    assert done.returncode == 0, done.stderr
    (note,) = gitlab_api.notes
    assert json.loads((clone / "kquota-results" / "counts.json").read_text()) == {
        "create": 2,
        "update": 0,
        "delete": 0,
    }
    assert {
        load["location"]["path"]
        for load in json.loads((clone / "kquota-results" / "remarks.json").read_text())
    } == {"quotas/a.yaml", "quotas/b.yaml"}
    assert (
        "[HTML page](https://gitlab.example/team/quotas/-/jobs/1/artifacts/file/kquota-results/plan.html)"
        in note.body
    )
    assert "kquota-results/plan.html" in EXAMPLE["plan"]["artifacts"]["paths"]
    assert (clone / "kquota-results" / "plan.html").read_text().startswith("<!DOCTYPE html>")
    (digest,) = re.findall(r"sha256:([0-9a-f]{64})", note.body)

    done, _ = run("apply", revision="change")
    assert "the digest that the note" in done.stderr
    assert broker.users() == {}
    done, _ = run("apply", revision="change", KQUOTA_DIGEST="sha256:" + "0" * 64)
    assert done.returncode == 4
    assert broker.users() == {}
    done, clone = run("apply", revision="change", KQUOTA_DIGEST=f"sha256:{digest}")
    assert done.returncode == 0, done.stderr
    assert json.loads((clone / "kquota-results" / "outcome.json").read_text())["complete"] is True
    assert set(broker.users()) == {"a", "b"}

    broker.set("a", 777.0)
    assert run("drift")[0].returncode == 0
    assert [issue.state for issue in gitlab_api.issues] == ["opened"]
    broker.set("a", 10485760.0)
    assert run("drift")[0].returncode == 0
    assert [issue.state for issue in gitlab_api.issues] == ["closed"]


@pytest.mark.parametrize("why", ["no rights", "newer commits"])
def test_a_note_that_cannot_be_written_does_not_fail_the_job(run, tmp_path, gitlab_api, why):
    base = commit(run, tmp_path, "main", kquota_yaml=PROJECT, quotas__a_yaml=quota("a"))
    gitlab_api.merge_requests[7] = base if why == "no rights" else "b" * 40
    request = {"CI_MERGE_REQUEST_IID": "7"}
    if why == "no rights":
        request["GITLAB_TOKEN"] = "glpat-reader"  # noqa: S105 - a token of the fake
    done, clone = run("plan", **request)
    assert done.returncode == 0, done.stderr
    assert "posting failed" in done.stderr
    assert gitlab_api.notes == []
    assert (clone / "kquota-results" / "counts.json").exists()


def test_a_refusal_fails_the_job_after_it_was_posted(run, tmp_path, gitlab_api):
    commit(run, tmp_path, "main", kquota_yaml=PROJECT)
    everybody = quota("all", entity="{user: {default: true}}")
    gitlab_api.merge_requests[7] = commit(run, tmp_path, "change", quotas__all_yaml=everybody)
    request = {"CI_MERGE_REQUEST_IID": "7"}
    done, _ = run("plan", revision="change", **request)
    assert done.returncode == 3
    assert "⛔ Refused" in gitlab_api.notes[0].body


def test_a_failed_plan_replaces_the_older_note(run, tmp_path, gitlab_api):
    base = commit(run, tmp_path, "main", kquota_yaml=PROJECT, quotas__a_yaml=quota("a"))
    gitlab_api.merge_requests[7] = base
    request = {"CI_MERGE_REQUEST_IID": "7"}
    assert run("plan", **request)[0].returncode == 0
    gitlab_api.merge_requests[7] = commit(run, tmp_path, "change", quotas__b_yaml="kind: Oops\n")
    done, _ = run("plan", revision="change", **request)
    assert done.returncode == 1
    (note,) = gitlab_api.notes
    assert "Planning failed" in note.body
