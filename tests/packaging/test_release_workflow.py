"""The release workflow: pinned actions, minimal rights, no interpolation into shells; steps without registry run."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

import reconciler
from tests.servers.kube import programs
from tests.servers.processes import HANG_SECONDS

ROOT = Path(__file__).parents[2]
FILE = ROOT / ".github" / "workflows" / "release.yml"
TEXT = FILE.read_text(encoding="utf-8")
WORKFLOW: dict[str, Any] = yaml.safe_load(TEXT)
JOBS: dict[str, Any] = WORKFLOW["jobs"]
RIGHTS = {
    "ready": {"contents": "read", "actions": "read"},
    "wheel": {"contents": "read", "id-token": "write", "attestations": "write"},
    "pypi": {"id-token": "write"},
    "image": {
        "contents": "read",
        "packages": "write",
        "id-token": "write",
        "attestations": "write",
    },
    "chart": {
        "contents": "read",
        "packages": "write",
        "id-token": "write",
        "attestations": "write",
    },
    "site": {"contents": "read", "id-token": "write", "attestations": "write"},
    "pages": {"pages": "write", "id-token": "write"},
    "publish": {"contents": "write"},
}
DIGEST = "sha256:" + "ab" * 32


def run_of(job: str, name: str) -> str:
    (script,) = [step["run"] for step in JOBS[job]["steps"] if step.get("name") == name]
    return str(script)


def executed(
    script: str, folder: Path, *, path: str = os.defpath, **environment: str
) -> "subprocess.CompletedProcess[str]":
    """Run a step like the runner."""
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=folder,
        text=True,
        check=False,
        capture_output=True,
        timeout=HANG_SECONDS,
        env={
            "PATH": path,
            "HOME": str(folder),
            "GITHUB_OUTPUT": str(folder / "output"),
            **environment,
        },
    )


def test_every_job_has_the_rights_of_the_table_and_the_workflow_has_none() -> None:
    assert WORKFLOW["permissions"] == {}
    assert {name: job["permissions"] for name, job in JOBS.items()} == RIGHTS
    assert all(job["timeout-minutes"] <= 45 for job in JOBS.values())


def test_nothing_is_published_before_the_checks() -> None:
    assert JOBS["wheel"]["needs"] == JOBS["image"]["needs"] == JOBS["site"]["needs"] == "ready"
    assert set(JOBS["publish"]["needs"]) == set(JOBS) - {"publish", "wheel", "site"}
    assert JOBS["pypi"]["needs"] == "wheel"


def test_the_image_has_a_bill_of_materials_a_provenance_and_a_pinned_python() -> None:
    script = run_of(
        "image", "Build and push, with SBOM and provenance, from a Python image named by its digest"
    )
    assert "--sbom=true" in script
    assert "--provenance=mode=max" in script
    assert '--build-arg "PYTHON_IMAGE=$(cat .ci/python-image)"' in script
    assert "\nARG PYTHON_IMAGE\n" in (ROOT / "Dockerfile").read_text(encoding="utf-8")


PYTHON_IMAGE = (ROOT / ".ci" / "python-image").read_text(encoding="utf-8").partition("@")[0].strip()


@pytest.mark.parametrize(
    ("name", "code"),
    [
        (f"{PYTHON_IMAGE}@{DIGEST}", 0),
        (PYTHON_IMAGE, 1),
        (f"{PYTHON_IMAGE}@", 1),
        (f"{PYTHON_IMAGE}@sha256:ab", 1),
    ],
)
def test_a_release_requires_a_python_image_that_is_named_by_its_digest(
    name: str, code: int, tmp_path: Path
) -> None:
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci" / "python-image").write_text(name + "\n", encoding="utf-8")
    answer = executed(run_of("ready", "The image of Python is named by its digest"), tmp_path)
    assert answer.returncode == code
    assert ("make python-image" in answer.stdout) == bool(code)


@pytest.mark.parametrize(
    ("tag", "released", "code"),
    [
        (f"v{reconciler.__version__}", True, 0),
        ("v9.9.9", True, 1),
        (f"v{reconciler.__version__}", False, 1),
    ],
)
def test_a_release_requires_the_tag_of_the_version_and_a_version_marked_as_released(
    tag: str, released: bool, code: int, tmp_path: Path
) -> None:
    for name in ("reconciler/__init__.py", "charts/kafka-quota-reconciler/Chart.yaml"):
        (tmp_path / name).parent.mkdir(parents=True)
        shutil.copy(ROOT / name, tmp_path / name)
    package = tmp_path / "reconciler" / "__init__.py"
    lines = package.read_text(encoding="utf-8").splitlines()
    lines = [f"RELEASED = {released}" if line.startswith("RELEASED = ") else line for line in lines]
    package.write_text("\n".join(lines), encoding="utf-8")
    script = run_of("ready", "The tag is the version of the package and of the chart")
    answer = executed(script, tmp_path, TAG=tag)
    assert answer.returncode == code, answer.stderr
    if code == 0:
        text = (tmp_path / "output").read_text(encoding="utf-8")
        assert text == f"version={reconciler.__version__}\n"


@pytest.mark.integration
def test_the_packaged_chart_names_the_image_by_its_digest(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "charts", tmp_path / "charts")
    script = run_of("chart", "Package the chart with the image's digest")
    answer = executed(
        script,
        tmp_path,
        path=f"{programs.helm().parent}:{os.defpath}",
        VERSION=reconciler.__version__,
        IMAGE="ghcr.io/acme/quotas",
        DIGEST=DIGEST,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    package = tmp_path / "packaged" / f"kafka-quota-reconciler-{reconciler.__version__}.tgz"
    process = subprocess.run(
        [str(programs.helm()), "show", "values", str(package)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert yaml.safe_load(process.stdout)["image"] == {
        "repository": "ghcr.io/acme/quotas",
        "tag": "",
        "digest": DIGEST,
        "pullPolicy": "IfNotPresent",
    }
