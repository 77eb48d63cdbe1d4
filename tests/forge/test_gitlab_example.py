"""The example for GitLab: its scripts run as on a runner, against the sandbox."""

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
def run(tmp_path, broker):
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


def test_a_merge_request_is_planned_approved_by_digest_applied_and_watched(run, tmp_path, broker):
    commit(run, tmp_path, "main", kquota_yaml=PROJECT, quotas__a_yaml=quota("a"))
    commit(run, tmp_path, "change", quotas__b_yaml=quota("b"))
    done, clone = run("plan", revision="change")
    assert done.returncode == 0, done.stderr
    for path in EXAMPLE["plan"]["artifacts"]["paths"]:
        assert (clone / path).stat().st_size > 0
    text = (clone / "kquota-results" / "plan.md").read_text()
    assert done.stdout == text
    (digest,) = re.findall(r"sha256:([0-9a-f]{64})", text)

    done, _ = run("apply", revision="change")
    assert "the digest that the reviewed plan shows" in done.stderr
    assert broker.users() == {}
    done, _ = run("apply", revision="change", KQUOTA_DIGEST="sha256:" + "0" * 64)
    assert done.returncode == 4
    assert broker.users() == {}
    done, clone = run("apply", revision="change", KQUOTA_DIGEST=f"sha256:{digest}")
    assert done.returncode == 0, done.stderr
    assert json.loads((clone / "kquota-results" / "outcome.json").read_text())["complete"] is True
    assert set(broker.users()) == {"a", "b"}

    broker.set("a", 777.0)
    assert run("drift")[0].returncode == 2
    broker.set("a", 10485760.0)
    assert run("drift")[0].returncode == 0


@pytest.mark.parametrize(
    ("manifest", "code"), [(quota("all", entity="{user: {default: true}}"), 3), ("kind: Oops\n", 1)]
)
def test_a_refused_or_failed_plan_fails_the_job(run, tmp_path, manifest: str, code: int):
    commit(run, tmp_path, "main", kquota_yaml=PROJECT)
    commit(run, tmp_path, "change", quotas__all_yaml=manifest)
    assert run("plan", revision="change")[0].returncode == code
