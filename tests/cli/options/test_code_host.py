"""The options of the commands that post: the same names, variables and meanings on each code host."""

import click
import pytest
from click.testing import CliRunner

from reconciler.cli.options.code_host import (
    GITHUB,
    GITLAB,
    HostApi,
    label_option,
    project_option,
    repository_option,
)


@pytest.mark.parametrize("api", [GITHUB, GITLAB])
def test_the_variable_overrides_the_address_and_the_option_overrides_the_variable(api: HostApi):
    @click.command()
    @api.option()
    def show(api_url: str) -> None:
        click.echo(api_url)

    run = CliRunner().invoke
    assert run(show, env={api.variable: None}).output == f"{api.address}\n"
    environment = {api.variable: "https://own.example"}
    assert run(show, env=environment).output == "https://own.example\n"
    assert run(show, ["--api-url", "https://typed"], env=environment).output == "https://typed\n"


@pytest.mark.parametrize(
    ("option", "variable", "name"),
    [
        (repository_option, "GITHUB_REPOSITORY", "--repo"),
        (project_option, "CI_PROJECT_ID", "--project"),
    ],
)
def test_a_missing_required_location_is_an_error_and_an_optional_one_is_empty(
    option, variable, name
):
    def output(*, required: bool, value: str | None) -> str:
        @click.command()
        @option(required=required)
        def show(**values: str) -> None:
            (place,) = values.values()
            click.echo(f"<{place}>")

        return CliRunner().invoke(show, env={variable: value}).output

    assert output(required=False, value=None) == "<>\n"
    assert f"Missing option '{name}'" in output(required=True, value=None)
    assert output(required=True, value="a/b") == output(required=False, value="a/b") == "<a/b>\n"


def test_a_label_is_empty_by_default():
    @click.command()
    @label_option("comment")
    def show(label: str) -> None:
        click.echo(f"<{label}>")

    assert CliRunner().invoke(show).output == "<>\n"
    assert CliRunner().invoke(show, ["--label", "prod"]).output == "<prod>\n"
    assert "each label has its own comment." in CliRunner().invoke(show, ["--help"]).output
