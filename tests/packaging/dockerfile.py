"""A Dockerfile read as what it is, a list of steps, and carried out without Docker in folders of our own.

Known are the instructions that ours uses; any other is an error, so that a step cannot be skipped by accident. The absolute
folders of the image are build arguments; the caller gives others, which are the same in every stage.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

RUN_SECONDS = 600
KNOWN = ("ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "FROM", "LABEL", "RUN", "USER", "WORKDIR")
VARIABLE = re.compile(r"\$\{(\w+)\}")


class StepFailed(Exception):
    """A RUN step ended with another exit code than 0; carries what it said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One instruction with all that follows it."""

    word: str
    text: str


@dataclass(slots=True, kw_only=True)
class Stage:
    """Where a stage stands while it is carried out."""

    image: str
    arguments: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    folder: Path | None = None
    user: str = "0:0"
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    ran: list[str] = field(default_factory=list)

    def expanded(self, text: str) -> str:
        """The text with its `${VARIABLE}`s replaced. Raises KeyError for one that nobody declared."""
        return VARIABLE.sub(lambda match: (self.arguments | self.environment)[match[1]], text)


def steps(text: str) -> list[Step]:
    """The instructions of a Dockerfile.

    Raises:
        ValueError: an instruction is not one of `KNOWN`.
    """
    lines = [
        line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")
    ]
    instructions: list[Step] = []
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        word, _, remaining_text = line.strip().partition(" ")
        if word not in KNOWN:
            raise ValueError(f"{word} is not an instruction that is carried out here")
        instructions.append(Step(word=word, text=remaining_text.strip()))
    return instructions


def carried_out(
    text: str, *, context: Path, build_arguments: Mapping[str, str], around: Mapping[str, str]
) -> list[Stage]:
    """Every stage, after all its steps.

    Args:
        text: The Dockerfile.
        context: Where COPY copies from.
        build_arguments: Values of build arguments, `--build-arg`.
        around: The environment that the stages' images have, `PATH` at least.

    Raises:
        StepFailed: a RUN step ended with another exit code than 0.
    """
    stages: list[Stage] = []
    first: dict[str, str] = {}
    for step in steps(text):
        if step.word == "ARG":
            name, _, default = step.text.partition("=")
            value = build_arguments.get(name, default)
            (stages[-1].arguments if stages else first)[name] = value
        elif step.word == "FROM":
            image = VARIABLE.sub(lambda match: first[match[1]], step.text.partition(" ")[0])
            stages.append(Stage(image=image, environment=dict(around)))
        else:
            _carry_out(step, stages[-1], context)
    return stages


def _carry_out(step: Step, stage: Stage, context: Path) -> None:
    if step.word == "RUN":
        _run(step.text, stage)
    elif step.word == "COPY":
        _copy(stage.expanded(step.text).split(), stage, context)
    elif step.word == "WORKDIR":
        stage.folder = Path(stage.expanded(step.text))
        stage.folder.mkdir(parents=True, exist_ok=True)
    elif step.word in ("ENV", "LABEL"):
        pairs = (part.partition("=") for part in shlex.split(stage.expanded(step.text)))
        target = stage.environment if step.word == "ENV" else stage.labels
        target.update({name: value for name, _, value in pairs})
    elif step.word == "USER":
        stage.user = step.text
    else:
        words = tuple(json.loads(step.text))
        stage.entrypoint, stage.command = (
            (words, stage.command) if step.word == "ENTRYPOINT" else (stage.entrypoint, words)
        )


def _run(command: str, stage: Stage) -> None:
    passed = {
        name: os.environ[name]
        for name in os.environ
        if name.startswith(("PIP_", "SSL_", "REQUESTS_")) or name.lower().endswith("_proxy")
    }
    answer = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=stage.folder,
        check=False,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        env={"HOME": os.environ["HOME"], **passed, **stage.arguments, **stage.environment},
    )
    if answer.returncode != 0:
        raise StepFailed(f"{command}\n{answer.stdout}{answer.stderr}")
    stage.ran.append(command)


def _copy(words: list[str], stage: Stage, context: Path) -> None:
    """From the context into the working folder; from another stage nothing moves, because the folders are the same."""
    if words[0].startswith("--from="):
        if words[1] != words[2]:
            raise ValueError(
                f"{words[1]} would become {words[2]}, and folders keep their place here"
            )
        return
    *sources, target = words
    if stage.folder is None:
        raise ValueError("COPY before WORKDIR")
    for source in sources:
        origin, place = context / source, stage.folder / target
        if origin.is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(origin, place, dirs_exist_ok=True, ignore=ignored)
        else:
            shutil.copy2(origin, place / origin.name if place.is_dir() else place)
