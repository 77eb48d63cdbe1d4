"""Nothing of a checkout is executed: the scripts of the actions run among files that would record it.

The decision: docs/adr/isolated-actions.md.
"""

import base64
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.cli.projects import quota
from tests.forge.code_host import ROOT, release_files
from tests.forge.hostile_checkout import plant
from tests.forge.test_workflows import PROJECT
from tests.git.commits import git, repository
from tests.servers.processes import HANG_SECONDS

ACTIONS = ROOT / ".github" / "actions"
SECRET = "planted-password"  # noqa: S105 - a planted secret
BARE = re.compile(
    r"(?<![\w.-])(?:\$\{?\w*(?:PYTHON|python)\w*\}?\"?|python3?(?:\.\d+)?)\"?\s+(?!-I\b)(?:-\s|-m\b|-c\b|\S*\.py\b)"
    r"|(?<![\w.-])(?<!-m )(?:bin/)?pip3?\s+(?:install|wheel|download)\b"
)
"""A Python that imports modules from the current directory, or a pip that an isolated Python does not run."""
SCRIPTS = sorted(
    path
    for folder in (ROOT / ".github", ROOT / "examples")
    for path in folder.rglob("*")
    if path.suffix in {".sh", ".yml", ".yaml", ".service"} or path.name == "Dockerfile"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """The head of a hostile pull request and the environment of a step."""

    folder: Path
    temp: Path
    witness: Path

    @property
    def executed(self) -> str:
        """The executed files of the checkout."""
        return self.witness.read_text() if self.witness.exists() else ""

    def step(
        self, script: str, *, path: str = os.environ["PATH"], folder: str = ".", **variables: str
    ) -> "subprocess.CompletedProcess[str]":
        """Run a script of the actions like the runner."""
        environment = {
            "HOME": str(self.temp),
            "RUNNER_TEMP": str(self.temp),
            "GITHUB_OUTPUT": str(self.temp / "output"),
            "GITHUB_PATH": str(self.temp / "path"),
            "QUOTA_PASSWORD": SECRET,
            "PATH": path,
            "PYTHONPATH": ".",
            "PYTHONSTARTUP": ".pythonrc.py",
            **{
                name: value
                for name, value in os.environ.items()
                if name.startswith(("PIP_", "SSL_"))
            },
            **dict.fromkeys(
                (
                    "LABEL",
                    "CLUSTER",
                    "CONFIG_FROM",
                    "OFFLINE",
                    "SNAPSHOT",
                    "PLAN",
                    "DIGEST",
                ),
                "",
            ),
        }
        environment |= {
            "PROJECT": "kquota.yaml",
            "MAX_AGE": "24h",
            "READ_ONLY": "false",
            **variables,
        }
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(ACTIONS / script)],
            cwd=self.folder / folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=HANG_SECONDS,
        )


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    temp = tmp_path / "temp"
    temp.mkdir()
    folder = repository(tmp_path / "checkout")
    plant(folder, tmp_path / "executed")
    return Checkout(folder=folder, temp=temp, witness=tmp_path / "executed")


def program(folder: Path, name: str, script: str) -> str:
    """A PATH on which this program is first."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


# ---- without a network -------------------------------------------------------------------------


def test_the_planted_files_run_in_a_python_that_is_not_isolated(checkout: Checkout) -> None:
    subprocess.run(
        ["python3", "-m", "venv", "x"], cwd=checkout.folder, check=False, capture_output=True
    )
    subprocess.run(
        ["python3", "-"],
        input="import json",
        text=True,
        cwd=checkout.folder,
        check=False,
        capture_output=True,
    )
    assert {"venv", "json"} <= set(checkout.executed.split())


@pytest.mark.parametrize("script", ["plan/plan.sh", "apply/apply.sh"])
def test_a_failed_command_is_recorded_without_a_module_of_the_checkout(
    checkout: Checkout, script: str
) -> None:
    path = program(checkout.temp / "bin", "kquota", "echo broken >&2; exit 1")
    answer = checkout.step(script, path=path, PLAN="plan.json", EVIDENCE="none")
    assert answer.returncode == 0, answer.stderr
    written = next(checkout.temp.glob("kquota-*/*.json")).read_text()
    assert '"messages": ["broken"]' in written
    assert checkout.executed == ""


@pytest.mark.parametrize("script", ["plan/plan.sh", "apply/apply.sh", "drift/drift.sh"])
def test_kquota_receives_no_variable_that_adds_modules_and_git_no_settings_of_the_checkout(
    checkout: Checkout, script: str
) -> None:
    path = program(
        checkout.temp / "bin",
        "kquota",
        'env >"${RUNNER_TEMP}/env"; git status >&2; git fetch origin >&2; exit 1',
    )
    checkout.step(script, path=path, folder="infra", PLAN="plan.json", EVIDENCE="none")
    variables = (checkout.temp / "env").read_text()
    assert "PYTHONSAFEPATH=1\n" in variables
    assert not re.search(r"^PYTHON(PATH|STARTUP|HOME)=", variables, re.MULTILINE)
    assert checkout.executed == ""


def test_the_token_for_the_records_is_in_the_environment_of_one_step_and_not_on_the_disk(
    checkout: Checkout,
) -> None:
    path = program(
        checkout.temp / "bin",
        "kquota",
        'env >"${RUNNER_TEMP}/env"; git config --get-all http.https://github.com/.extraheader >"${RUNNER_TEMP}/header"; exit 1',
    )
    git(checkout.folder, "config", "http.https://github.com/.extraheader", "AUTHORIZATION: old")
    answer = checkout.step("drift/drift.sh", path=path, RECORDS_TOKEN="ghs_secret")  # noqa: S106 - not a token of a real host
    basic = base64.b64encode(b"x-access-token:ghs_secret").decode()
    assert "ghs_secret" not in (checkout.temp / "env").read_text()
    # An empty value removes the setting of the checkout; the script's own value follows.
    assert (checkout.temp / "header").read_text().splitlines()[-2:] == [
        "",
        f"AUTHORIZATION: basic {basic}",
    ]
    assert f"::add-mask::{basic}\n" in answer.stdout
    files = [path for path in checkout.folder.rglob("*") if path.is_file()]
    assert not [path for path in files if basic.encode() in path.read_bytes()]


def test_an_installation_receives_no_secret_and_runs_isolated_outside_the_checkout(
    checkout: Checkout,
) -> None:
    path = program(
        checkout.temp / "bin",
        "python3",
        f'{{ env; pwd; echo "words=$*"; }} >>{checkout.temp}/seen; exit 1',
    )
    answer = checkout.step("install.sh", path=path)
    text = (checkout.temp / "seen").read_text()
    assert answer.returncode == 1
    assert SECRET not in text
    assert "PYTHONPATH" not in text
    assert f"\n{checkout.folder}\n" not in text
    assert re.findall(r"^words=(\S+)", text, re.MULTILINE) == ["-I"]


def test_a_version_other_than_that_of_the_pinned_commit_is_refused(checkout: Checkout) -> None:
    answer = checkout.step("install.sh", VERSION="1.2.3")
    assert answer.returncode == 1
    assert "pin this action to its commit" in answer.stdout
    answer = checkout.step("install.sh", EXTRAS="http,../../evil")
    assert answer.returncode == 1


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_script_workflow_or_example_starts_a_python_that_is_not_isolated(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [line.strip() for line in lines if BARE.search(line)] == []


@pytest.mark.parametrize(
    "line",
    [
        "python3 - <<E",
        "python -m venv x",
        '"${python}" -m venv',
        "pip install x",
        "bin/pip install x",
        "python3 x.py",
    ],
)
def test_the_check_reports_a_python_that_is_not_isolated(line: str) -> None:
    assert BARE.search(line)


# ---- secrets -----------------------------------------------------------------------------------

WORKFLOWS = sorted(
    [*(ROOT / ".github" / "workflows").glob("*.yml"), *(ROOT / "examples" / "github").glob("*.yml")]
)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_secret_is_in_the_environment_of_the_one_step_that_runs_kquota(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert "secrets." not in str(workflow.get("env", ""))
    for job in workflow["jobs"].values():
        assert "secrets." not in str({name: job[name] for name in job if name != "steps"})
        for step in job["steps"]:
            if "secrets." in str(step):
                assert "secrets." not in str({name: step[name] for name in step if name != "env"})
                action = re.search(r"/actions/(plan|apply|drift|ends)@", step.get("uses", ""))
                assert action or step["run"].startswith("kquota "), step
            if "actions/checkout@" in step.get("uses", ""):
                assert step["with"]["persist-credentials"] is False


def test_every_job_of_the_gitlab_example_that_has_a_secret_names_an_environment() -> None:
    jobs = yaml.safe_load((ROOT / "examples/gitlab/.gitlab-ci.yml").read_text(encoding="utf-8"))
    with_secrets = {
        name: job.get("environment")
        for name, job in jobs.items()
        if isinstance(job, dict) and "PASSWORD" in str(job.get("variables"))
    }
    assert with_secrets == {"plan": "kafka-plan", "apply": "kafka-prod", "drift": "kafka-drift"}
    for job in jobs.values():
        for line in job.get("script", ()) if isinstance(job, dict) else ():
            written = re.findall(r"(?:>|--out |--terraform-report |--code-quality )\s*(\S+)", line)
            assert all(name.startswith("kquota-results/") for name in written), line


# ---- with what is really installed ---------------------------------------------------------------


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Checkout, str]]:
    """kquota, installed by the script of the actions in a hostile checkout; returns the PATH of later steps."""
    top = tmp_path_factory.mktemp("installed")
    (top / "temp").mkdir()
    folder = repository(top / "checkout")
    plant(folder, top / "executed")
    (folder / "kquota-results").symlink_to(top / "elsewhere")
    jobs = yaml.safe_load((ROOT / "examples/gitlab/.gitlab-ci.yml").read_text(encoding="utf-8"))
    script = "\n".join(
        [*jobs[".kquota"]["before_script"], "kquota --version", "ls -d kquota-results"]
    )
    product = released(top / "product")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(top),
        "KQUOTA_EXTRAS": "http",
        "KQUOTA_SOURCE": str(product),
        "KQUOTA_COMMIT": git(product, "rev-parse", "HEAD"),
        "PYTHONPATH": ".",
        "PYTHONSTARTUP": ".pythonrc.py",
        "QUOTA_PASSWORD": SECRET,
        **{name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_"))},
    }
    answer = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script.replace("/opt/", f"{top}/")],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert answer.stdout.startswith("kquota ")
    checkout = Checkout(folder=folder, temp=top / "temp", witness=top / "executed")
    yield checkout, f"{top}/kquota/bin:{os.environ['PATH']}"
    shutil.rmtree(top)


def released(folder: Path) -> Path:
    """A repository with all files for an installation, in one commit."""
    product = repository(folder)
    release_files(product)
    git(product, "add", "-A")
    git(product, "commit", "--quiet", "-m", "release")
    return product


@pytest.mark.integration
def test_an_installation_executes_no_file_of_the_checkout(installed: tuple[Checkout, str]) -> None:
    checkout, path = installed
    assert checkout.executed == ""
    assert not (checkout.folder / "kquota-results").is_symlink()
    programs = Path(path.partition(":")[0])
    assert sorted(program.name for program in programs.iterdir()) == [
        "kafka-client-quotas",
        "kquota",
    ]
    assert not list(programs.parent.glob("environment/bin/pip*"))
    assert all(stat.S_IMODE(program.stat().st_mode) == 0o755 for program in programs.iterdir())


@pytest.mark.integration
def test_plan_apply_and_drift_execute_no_file_of_the_checkout(
    installed: tuple[Checkout, str], sandbox: object
) -> None:
    checkout, path = installed
    (checkout.folder / "kquota.yaml").write_text(PROJECT)
    (checkout.folder / "quotas").mkdir(exist_ok=True)
    (checkout.folder / "quotas" / "a.yaml").write_text(quota("a"))
    git(checkout.folder, "add", "-A")
    git(checkout.folder, "commit", "--quiet", "-m", "evil")
    base = git(checkout.folder, "rev-parse", "HEAD")
    variables = {"QUOTA_BOOTSTRAP": sandbox.bootstrap, "EVIDENCE": "none", "RECORDS_TOKEN": "t"}
    for script in ("plan/plan.sh", "apply/apply.sh", "drift/drift.sh"):
        answer = checkout.step(
            script, path=path, **variables, CONFIG_FROM=base if "plan" in script else ""
        )
        assert answer.returncode == 0, answer.stderr
    codes = re.findall(r"exit-code<<\S+\n(\d+)", (checkout.temp / "output").read_text())
    assert codes == ["2", "0", "0"]
    assert checkout.executed == ""


@pytest.mark.integration
def test_a_download_with_another_hash_is_refused(checkout: Checkout, tmp_path: Path) -> None:
    product = tmp_path / "product"
    release_files(product, (".github/actions", ".ci/locks"))
    lock = product / ".ci/locks/base.txt"
    text = lock.read_text()
    tampered = re.sub(
        r"(?m)^(click==\S+ \\\n)(?:.*\\\n)*.*--hash.*$", rf"\1    --hash=sha256:{'0' * 64}", text
    )
    assert tampered != text
    lock.write_text(tampered)
    answer = checkout.step(str(product / ".github/actions/install.sh"), EXTRAS="proxy")
    assert answer.returncode != 0
    assert "click" in answer.stderr
    assert re.search("THESE PACKAGES DO NOT MATCH THE HASHES", answer.stderr)
    assert not (checkout.temp / "kquota" / "bin").exists()
