"""Hints name commands with the options of the run that prints them, so that they run as printed."""

import shlex
from pathlib import Path

import click
import pytest

from reconciler.cli.framework.runnable_hints import completed
from reconciler.cli.main import cli
from tests.cli.projects import CLUSTER, PROJECT, quota

PLACES = {"--project": "a folder/kquota.yaml", "--cluster": "prod"}
OPTIONS = "--project 'a folder/kquota.yaml' --cluster prod"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "replaces it: kquota apply --take-over",
            f"replaces it: kquota apply {OPTIONS} --take-over",
        ),
        ("`kquota override list` lists them", f"`kquota override list {OPTIONS}` lists them"),
        ("kquota plan shows it", f"kquota plan {OPTIONS} shows it"),
        ("see kquota import --help", "see kquota import --help"),
        (
            "`kquota plan --cluster eu`",
            "`kquota plan --project 'a folder/kquota.yaml' --cluster eu`",
        ),
        ("kquota reads it", "kquota reads it"),
        (".kquota holds records", ".kquota holds records"),
    ],
)
def test_a_command_gets_the_options_that_it_takes_and_lacks(text: str, expected: str) -> None:
    places = PLACES if "import" not in text else {"--project": "x"}
    with click.Context(cli):
        assert completed(text, places) == expected


def test_outside_of_a_command_a_hint_stays_as_it_is() -> None:
    assert completed("kquota plan", PLACES) == "kquota plan"


@pytest.mark.parametrize("choice", [("--cluster", "prod"), ("--all",)], ids=["one", "all"])
def test_the_command_that_takes_records_over_runs_as_printed(
    kquota, folder: Path, sandbox, choice
) -> None:
    clusters = [CLUSTER.format(name=name, bootstrap=sandbox.bootstrap) for name in ("prod", "eu")]
    home = folder / "new home"
    (home / "quotas").mkdir(parents=True)
    project = home / "kquota.yaml"

    def name(project_name: str) -> None:
        head = PROJECT.replace("spec:", f"metadata: {{name: {project_name}}}\nspec:")
        project.write_text("---\n".join((head, *clusters)))

    (home / "quotas" / "all.yaml").write_text(quota("alice"))
    name("before")
    command = ("apply", "--project", "new home/kquota.yaml", "--yes")
    assert kquota(*command, "--cluster", "prod").code == 0
    name("after")
    refused = kquota(*command, *choice)
    (line,) = {line for line in refused.err.splitlines() if "--cluster prod --take-over" in line}
    advised = kquota("doctor", "--project", "new home/kquota.yaml", *choice).out
    assert "kquota apply --project 'new home/kquota.yaml' --cluster prod --take-over" in advised
    printed = shlex.split(line[line.index("kquota apply") :])
    assert kquota(*printed[1:], "--yes").code == 0
