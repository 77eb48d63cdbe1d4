"""``kquota post recommendations``: a pull request with the documents of ``spark recommend``; nothing is applied."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from reconciler.app.requests import RecommendationsRequest
from reconciler.base.installation import needs
from reconciler.cli.framework.commands import group
from reconciler.cli.framework.console import Console
from reconciler.cli.framework.exit_codes import ExitCode
from reconciler.cli.options.shared import FILE, OptionPack
from reconciler.errors import ForgeError, KquotaError

HELP: Final = """Keep a pull request with recommended limits up to date; nothing is applied.

DOCUMENT is the output of `spark recommend --format json`, and --folder the folder of its --out. The files of the folder are
committed to the branch kquota/recommendations-LABEL through the API of the code host, without git; run it in the root of
a checkout. The text of the pull request is the report: window, coverage, and each limit with its advice.

Only files of recommendations in that folder are written. The same recommendation makes no new commit, and is not proposed again
after somebody merged or closed its pull request. If nothing is recommended any more, the pull request is closed. If
somebody else committed to the branch, nothing is changed, and the command says so.

\b
Example:
  kquota spark recommend --lake ./lake --all --out proposals --format json > recommendations.json
  kquota post recommendations github recommendations.json --folder proposals --label prod
  kquota post recommendations gitlab recommendations.json --folder proposals --label prod"""

GITHUB_HELP: Final = """Open, update or close the pull request on GitHub.

The token is GITHUB_TOKEN, with `contents: write` and `pull-requests: write`. For the token of a workflow, the repository
must allow GitHub Actions to create pull requests.

\b
Example:
  kquota post recommendations github recommendations.json --folder proposals --label prod
  kquota post recommendations github recommendations.json --folder proposals --base main --author 'my-app[bot]'"""

GITLAB_HELP: Final = """Open, update or close the merge request on GitLab.

The token is GITLAB_TOKEN: that of a project access token with scope api and the role Developer.

\b
Example:
  kquota post recommendations gitlab recommendations.json --folder proposals --label prod"""


def host_options(*, api: str, api_variable: str) -> tuple[Callable[[Any], Any], ...]:
    """Return the options of every command that writes to a code host: `--required` and `--api-url`.

    Args:
        api: Default URL of the host's API.
        api_variable: Environment variable that overrides it.
    """
    return (
        click.option(
            "--required",
            is_flag=True,
            help="Exit 1 if the code host cannot be reached or refuses.",
        ),
        click.option(
            "--api-url",
            default=api,
            envvar=api_variable,
            show_default=True,
            metavar="URL",
            help=f"Address of the API  [env: {api_variable}].",
        ),
    )


def warn_of_failure(console: Console, error: KquotaError, *, required: bool) -> ExitCode:
    """Print an error of the code host as a warning, unless posting is required.

    Raises:
        KquotaError: Posting is required, or the error does not come from the code host.
    """
    if required or not isinstance(error, ForgeError):
        raise error
    console.warning(f"posting failed: {error.message}")
    console.hint(error.hint)
    return ExitCode.DONE


def _request_options(*, api: str, api_variable: str) -> OptionPack:
    return OptionPack(
        "request",
        RecommendationsRequest,
        (
            click.argument("document", type=FILE, metavar="DOCUMENT"),
            click.option(
                "--folder",
                type=click.Path(file_okay=False, path_type=Path),
                required=True,
                metavar="DIR",
                help="Folder of `spark recommend --out`, from the root of the repository; missing = nothing is recommended.",
            ),
            click.option(
                "--label",
                default="",
                metavar="NAME",
                help="Name of the environment; each label has its own branch and pull request.",
            ),
            click.option("--title", default="", help="Title of the pull request."),
            click.option(
                "--base",
                default="",
                metavar="BRANCH",
                help="Branch to merge into  [default: the default branch].",
            ),
            click.option(
                "--details-url", default="", metavar="URL", help="URL of the full text, for a link."
            ),
            *host_options(api=api, api_variable=api_variable),
        ),
    )


@group(help=HELP, no_args_is_help=True)
def recommendations() -> None:
    """Hold the commands."""


@recommendations.command("github", help=GITHUB_HELP)
@_request_options(api="https://api.github.com", api_variable="GITHUB_API_URL")
@click.option(
    "--repo",
    required=True,
    envvar="GITHUB_REPOSITORY",
    metavar="OWNER/NAME",
    help="Repository  [env: GITHUB_REPOSITORY].",
)
@click.option(
    "--author",
    default="",
    metavar="LOGIN",
    help="Author of kquota's pull requests if the token is that of another app, such as my-app[bot].",
)
@click.pass_obj
def github(
    console: Console, *, request: RecommendationsRequest, repo: str, author: str
) -> ExitCode:
    """Update the pull request."""
    needs("http", "kquota post")
    from reconciler.app.event_loop import run
    from reconciler.app.post.recommendations import propose_on_github

    try:
        run(propose_on_github(console, request, repo, author))
    except KquotaError as error:
        return warn_of_failure(console, error, required=request.required)
    return ExitCode.DONE


@recommendations.command("gitlab", help=GITLAB_HELP)
@_request_options(api="https://gitlab.com/api/v4", api_variable="CI_API_V4_URL")
@click.option(
    "--project",
    required=True,
    envvar="CI_PROJECT_ID",
    metavar="ID",
    help="Number or path of the project  [env: CI_PROJECT_ID].",
)
@click.pass_obj
def gitlab(console: Console, *, request: RecommendationsRequest, project: str) -> ExitCode:
    """Update the merge request."""
    needs("http", "kquota post")
    from reconciler.app.event_loop import run
    from reconciler.app.post.recommendations import propose_on_gitlab

    try:
        run(propose_on_gitlab(console, request, project))
    except KquotaError as error:
        return warn_of_failure(console, error, required=request.required)
    return ExitCode.DONE
