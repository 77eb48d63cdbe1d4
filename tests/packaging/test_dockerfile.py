"""The image, without Docker: its steps are carried out, and its program runs as a stranger in a tree that nobody may write."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import reconciler
from tests.packaging.dockerfile import Stage, carried_out, steps

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8")
NOBODY = 65532
READ_ONLY = 0o555


def test_every_step_is_one_that_is_carried_out() -> None:
    words = [step.word for step in steps(TEXT)]
    assert words.count("FROM") == 2
    assert words.count("RUN") == 4
    with pytest.raises(ValueError, match="ADD is not an instruction"):
        steps("FROM x\nADD http://example.org/x /x\n")


def test_the_image_runs_as_a_number_that_is_not_root() -> None:
    users = [step.text for step in steps(TEXT) if step.word == "USER"]
    assert users == [f"{NOBODY}:{NOBODY}"]
    assert [step.word for step in steps(TEXT)][-3:] == ["USER", "ENTRYPOINT", "CMD"]


def test_what_the_image_is_built_from_is_let_through_and_nothing_else() -> None:
    allowed = {
        line[1:]
        for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
        if line.startswith("!")
    }
    copied: set[str] = set()
    for step in steps(TEXT):
        if step.word == "COPY" and not step.text.startswith("--from"):
            copied |= set(step.text.split()[:-1])
    assert copied == allowed
    assert all((ROOT / name).exists() for name in copied)


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """What became of the Dockerfile."""

    stages: list[Stage]
    prefix: Path
    writable: Path

    def run(self, *arguments: str, **more: str) -> "subprocess.CompletedProcess[str]":
        """The image's program with these arguments, as the image's user where we may change users."""
        last = self.stages[-1]
        environment = {
            **last.environment,
            "HOME": str(self.writable),
            "TMPDIR": str(self.writable),
            **more,
        }
        who = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
        program = self.prefix / "bin" / last.entrypoint[0]
        return subprocess.run(
            [str(program), *(arguments or last.command)],
            cwd=self.writable,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            **who,
        )


def lock(folder: Path) -> None:
    """Takes every right to write away, from everything."""
    for path in [folder, *folder.rglob("*")]:
        if not path.is_symlink():
            path.chmod(READ_ONLY if path.is_dir() or os.access(path, os.X_OK) else 0o444)


def unlock(folder: Path) -> None:
    for path in [folder, *folder.rglob("*")]:
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)


def base_python(copy: Path) -> tuple[Path, dict[str, str]]:
    """A Python with pip that a stranger may run, and what its environment needs: ours, or a copy if it lies where only we may look."""
    original = Path(sys.base_prefix)
    if all(folder.stat().st_mode & 0o001 for folder in (original, *original.parents)):
        return original / "bin" / "python3", {}

    def left_out(folder: str, names: list[str]) -> list[str]:
        if Path(folder).name == "site-packages":
            return [name for name in names if not name.startswith(("pip", "setuptools"))]
        return [
            name
            for name in names
            if name in ("test", "__pycache__", "share") or name.endswith(".a")
        ]

    shutil.copytree(original, copy, symlinks=True, ignore=left_out)
    return copy / "bin" / "python3", {"LD_LIBRARY_PATH": str(copy / "lib")}


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    """The image's stages, carried out; its tree is read-only, and one folder stands for the pod's emptyDir."""
    top = Path(tempfile.mkdtemp(prefix="image-"))  # pytest's own folders let nobody else in
    top.chmod(0o755)
    prefix, tools, writable = top / "opt", top / "tools", top / "tmp"
    tools.mkdir()
    writable.mkdir()
    writable.chmod(0o777)
    python, environment = base_python(top / "python")
    (tools / "python").write_text(f'#!/bin/sh\nexec "{python}" "$@"\n', encoding="utf-8")
    (tools / "python").chmod(0o755)
    build_arguments = {
        "SOURCE": str(top / "src"),
        "PREFIX": str(prefix),
        "VERSION": reconciler.__version__,
        "REVISION": "abc",
    }
    text = TEXT.replace("WORKDIR /tmp", f"WORKDIR {writable}")
    try:
        around = {"PATH": f"{tools}:{os.defpath}", **environment}
        stages = carried_out(text, context=ROOT, build_arguments=build_arguments, around=around)
        lock(prefix)
        yield Image(stages=stages, prefix=prefix, writable=writable)
    finally:
        if prefix.exists():
            unlock(prefix)
        shutil.rmtree(top)


@pytest.mark.integration
def test_the_program_says_its_version_as_a_stranger_in_a_read_only_tree(image: Image) -> None:
    answer = image.run("--version")
    assert (answer.stdout.strip(), answer.stderr) == (f"kquota {reconciler.__version__}", "")
    assert list(image.writable.iterdir()) == []


@pytest.mark.integration
def test_without_arguments_the_image_explains_itself(image: Image) -> None:
    answer = image.run()
    assert answer.returncode == 0, answer.stderr
    assert "kquota plan --cluster prod" in answer.stdout


@pytest.mark.integration
def test_everything_that_the_operator_needs_can_be_imported(image: Image) -> None:
    modules = "aiohttp, cryptography, kopf, kubernetes, prometheus_client, yaml, reconciler.kube, reconciler.app.loop"
    last = image.stages[-1]
    answer = subprocess.run(
        [str(image.prefix / "bin" / "python"), "-I", "-W", "error", "-c", f"import {modules}"],
        cwd=image.writable,
        env=last.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert answer.returncode == 0, answer.stderr


@pytest.mark.integration
def test_offline_work_is_done_as_a_stranger_in_a_read_only_tree(image: Image) -> None:
    shutil.copytree(ROOT / "examples", image.writable / "examples")
    variables = {
        "KQUOTA_DEMO_BOOTSTRAP": "a:1",
        "ANALYTICS_BOOTSTRAP": "b:1",
        "ANALYTICS_PASSWORD": "c",
    }
    arguments = ("validate", "--all", "--project", "examples/kquota.yaml")
    answer = image.run(*arguments, **variables)
    shutil.rmtree(image.writable / "examples")
    assert answer.returncode == 0, answer.stderr


@pytest.mark.integration
def test_the_versions_in_the_image_are_the_tested_ones(image: Image) -> None:
    pinned = dict(
        line.lower().replace("_", "-").split("==")
        for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    )
    installed = {
        re.sub(r"[._]", "-", match["name"].lower()): match["version"]
        for path in image.prefix.glob("lib/python*/site-packages/*.dist-info")
        if (match := re.match(r"(?P<name>.+)-(?P<version>[^-]+)\.dist-info$", path.name))
    }
    own_version = installed.pop("kafka-quota-reconciler")
    assert own_version == reconciler.__version__
    assert "pip" not in installed
    assert {
        name: version for name, version in installed.items() if pinned.get(name) != version
    } == {}


@pytest.mark.integration
def test_nothing_in_the_image_can_be_written_by_its_user(image: Image) -> None:
    assert [
        path
        for path in image.prefix.rglob("*")
        if not path.is_symlink() and path.stat().st_mode & 0o022
    ] == []


@pytest.mark.integration
def test_the_labels_say_what_it_is(image: Image) -> None:
    labels = image.stages[-1].labels
    assert labels["org.opencontainers.image.version"] == reconciler.__version__
    assert labels["org.opencontainers.image.revision"] == "abc"
    assert labels["org.opencontainers.image.licenses"] == "Apache-2.0"
