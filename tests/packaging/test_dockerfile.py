"""The steps of the Dockerfile. test_image_build.py tests an image that is built from it."""

import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.servers.processes import HANG_SECONDS

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8")
NOBODY = 65532
KNOWN = ("ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "FROM", "LABEL", "RUN", "USER", "WORKDIR")


class Step(NamedTuple):
    """One instruction with its arguments."""

    word: str
    text: str


def steps(text: str) -> list[Step]:
    """The instructions of a Dockerfile.

    Raises:
        ValueError: An instruction is not one of `KNOWN`.
    """
    lines = [
        line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")
    ]
    instructions: list[Step] = []
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        word, _, remaining_text = line.strip().partition(" ")
        if word not in KNOWN:
            raise ValueError(f"{word} is not an instruction of ours")
        instructions.append(Step(word=word, text=remaining_text.strip()))
    return instructions


def test_every_step_of_the_dockerfile_is_parsed() -> None:
    words = [step.word for step in steps(TEXT)]
    assert words.count("FROM") == 2
    assert words.count("RUN") == 5
    with pytest.raises(ValueError, match="ADD is not an instruction"):
        steps("FROM x\nADD http://example.org/x /x\n")


@pytest.mark.parametrize(
    ("name", "code"),
    [
        (f"docker.io/library/python:3.13@sha256:{'ab' * 32}", 0),
        ("localhost/python:bookworm", 0),
        ("docker.io/library/python:3.13", 1),
        ("evil.example/localhost/python", 1),
    ],
)
def test_a_build_refuses_a_python_image_without_a_digest(name: str, code: int) -> None:
    first_run = next(step.text for step in steps(TEXT) if step.word == "RUN")
    answer = subprocess.run(
        ["sh", "-c", first_run],
        env={"PYTHON_IMAGE": name},
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
    )
    assert answer.returncode == code, answer.stderr
    assert ("run make python-image" in answer.stderr) == bool(code)


def test_the_image_runs_as_a_numeric_user_that_is_not_root() -> None:
    users = [step.text for step in steps(TEXT) if step.word == "USER"]
    assert users == [f"{NOBODY}:{NOBODY}"]
    assert [step.word for step in steps(TEXT)][-3:] == ["USER", "ENTRYPOINT", "CMD"]


def test_an_image_built_without_a_version_or_commit_is_labelled_as_such() -> None:
    last_stage = TEXT[TEXT.rindex("FROM") :]
    assert {"VERSION=unknown", "REVISION=unknown"} <= {
        step.text for step in steps(last_stage) if step.word == "ARG"
    }


def test_the_dockerignore_admits_exactly_the_copied_files() -> None:
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
