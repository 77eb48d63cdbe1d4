"""The examples for Spark clusters name existing things: the main file, the job, its arguments, the image."""

import re
from pathlib import Path
from typing import Any

import click
import yaml

from reconciler.cli.main import cli

TREE = Path(__file__).parents[2]
FOLDER = TREE / "examples" / "spark"
PAGE = (TREE / "docs" / "recorded-use-operations.md").read_text(encoding="utf-8")


def document(name: str) -> Any:
    return yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))


def in_image(address: str) -> str:
    """The file of a `local://` address, which is in the image."""
    scheme, _, path = address.partition("://")
    assert scheme == "local"
    return path


def parsed(words: list[str]) -> tuple[str, dict[str, Any]]:
    """The name and the parsed options of a job of the main file for spark-submit."""
    name, *options = words
    if "--output" in options:
        at = options.index("--output")
        del options[at : at + 2]
    group = cli.get_command(click.Context(cli), "usage")
    assert isinstance(group, click.Group)
    command = group.get_command(click.Context(group), name)
    assert command is not None
    return name, command.make_context(name, options).params


def test_the_application_runs_an_existing_job_with_arguments_that_it_accepts() -> None:
    spec = document("sparkapplication.yaml")["spec"]["template"]
    name, values = parsed(spec["arguments"])
    assert (name, values["engine"], values["master"]) == ("report", "spark", None)
    assert spec["sparkVersion"] == "4.3.0"


def test_the_files_of_the_application_are_in_the_image() -> None:
    spec = document("sparkapplication.yaml")["spec"]["template"]
    image = (FOLDER / "Dockerfile").read_text(encoding="utf-8")
    main = in_image(spec["mainApplicationFile"])
    source, target = re.findall(r"^COPY (reconciler\S+) (\S+)$", image, re.MULTILINE)[0]
    assert (target, (TREE / source).exists()) == (main, True)
    (wheel,) = map(in_image, spec["deps"]["pyFiles"])
    assert f"COPY dist/*.whl {wheel}\n" in image
    assert wheel.endswith(".zip")  # what Spark puts on the path of its workers


def test_the_image_has_the_requirements_of_the_wheel() -> None:
    project = (TREE / "pyproject.toml").read_text(encoding="utf-8")
    image = (FOLDER / "Dockerfile").read_text(encoding="utf-8")
    for requirement in re.findall(r"'([a-z]+[<>=][^']+)'", image):
        assert f'"{requirement}"' in project, requirement


def test_commands_on_the_page_are_valid() -> None:
    for words in re.findall(r"__main__\.py ([a-z].*?)(?:`|$)", PAGE, re.MULTILINE):
        job, _ = parsed(words.split())
        assert job in {"show", "report"}
