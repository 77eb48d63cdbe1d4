"""``kquota post recommendations``: a pull request with the documents of ``spark recommend``; nothing is applied."""

from typing import Final

import click

from reconciler.app.requests import RecommendationsRequest
from reconciler.base.installation import needs
from reconciler.cli.framework.commands import group, option
from reconciler.cli.framework.console import Console
from reconciler.cli.framework.exit_codes import ExitCode
from reconciler.cli.options.code_host import (
    GITHUB,
    GITLAB,
    HostApi,
    author_option,
    details_option,
    label_option,
    post_to_host,
    project_option,
    repository_option,
    required_option,
)
from reconciler.cli.options.shared import FILE, FOLDER, OptionPack

HELP: Final = """Keep a pull request with recommended limits up to date; nothing is applied.

DOCUMENT is the output of `spark recommend --format json`, and --folder the folder of its --out. The files of the folder are
committed to the branch kquota/recommendations-LABEL through the API of the code host, without git; run it in the root of
a checkout. The text of the pull request is the report: window, coverage, and each limit with its advice.

Only files of recommendations in that folder are written. The same recommendation makes no new commit, and is not proposed again
after a person merged or closed its pull request. If nothing is recommended any more, the pull request is closed. If
another person committed to the branch, nothing is changed, and the command says so.

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


def _request_options(api: HostApi) -> OptionPack:
    return OptionPack(
        "request",
        RecommendationsRequest,
        (
            click.argument("document", type=FILE, metavar="DOCUMENT"),
            option(
                "--folder DIR",
                "Folder of `spark recommend --out`, from the root of the repository; missing = nothing is recommended.",
                FOLDER,
                required=True,
            ),
            label_option("branch and pull request"),
            option("--title", "Title of the pull request.", default=""),
            option(
                "--base BRANCH", "Branch to merge into  [default: the default branch].", default=""
            ),
            details_option,
            required_option,
            api.option(),
        ),
    )


@group(help=HELP, no_args_is_help=True)
def recommendations() -> None:
    """Hold the commands."""


@recommendations.command("github", help=GITHUB_HELP)
@_request_options(GITHUB)
@repository_option(required=True)
@author_option("pull requests")
@click.pass_obj
def github(
    console: Console, *, request: RecommendationsRequest, repo: str, author: str
) -> ExitCode:
    """Update the pull request."""
    needs("http", "kquota post")
    from reconciler.app.post.recommendations import propose_on_github

    posting = propose_on_github(console, request, repo, author)
    return post_to_host(console, posting, required=request.required)


@recommendations.command("gitlab", help=GITLAB_HELP)
@_request_options(GITLAB)
@project_option(required=True)
@click.pass_obj
def gitlab(console: Console, *, request: RecommendationsRequest, project: str) -> ExitCode:
    """Update the merge request."""
    needs("http", "kquota post")
    from reconciler.app.post.recommendations import propose_on_gitlab

    posting = propose_on_gitlab(console, request, project)
    return post_to_host(console, posting, required=request.required)
