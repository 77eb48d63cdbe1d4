"""The options of the commands that post: the same names, variables and meanings on each code host."""

import click
import pytest
from click.testing import CliRunner

from reconciler.cli.options.code_host import (
    GITHUB,
    GITLAB,
    HostApi,
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


def test_a_missing_required_location_is_an_error_and_an_optional_one_is_empty():
    def output(*, required: bool, value: str | None) -> str:
        @click.command()
        @repository_option(required=required)
        def show(repo: str) -> None:
            click.echo(f"<{repo}>")

        return CliRunner().invoke(show, env={"GITHUB_REPOSITORY": value}).output

    assert output(required=False, value=None) == "<>\n"
    assert "Missing option '--repo'" in output(required=True, value=None)
    assert output(required=True, value="a/b") == output(required=False, value="a/b") == "<a/b>\n"
