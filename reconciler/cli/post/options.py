"""The options of ``kquota post`` and the two values that they are packed into."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from reconciler.cli.options.shared import FILE, packed
from reconciler.errors import UsageError

if TYPE_CHECKING:
    from reconciler.forge.sticky_comment import Method

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class PostOptions:
    """What is posted and how, as it was typed; the same for every host."""

    document: Path
    label: str
    title: str
    method: "Method"
    details_url: str
    artifact_url: str
    commit: str
    issue: bool
    failed: int | None
    required: bool
    api_url: str


def post_options(*, api: str, api_variable: str) -> Callable[[F], F]:
    """The options of :class:`PostOptions`, handed over as ``wanted``.

    Args:
        api: Address of the host's API.
        api_variable: Variable of the environment that names another one.
    """
    options = [
        click.argument("document", type=FILE, metavar="DOCUMENT"),
        click.option(
            "--label",
            default="",
            metavar="NAME",
            help="Name of the environment; each label has its own comment.",
        ),
        click.option("--title", default="", help="Heading, instead of the label."),
        click.option(
            "--method",
            type=click.Choice(("update", "recreate", "on-change", "never")),
            default="update",
            show_default=True,
            help="When to comment; on-change creates no comment for a plan without changes.",
        ),
        click.option(
            "--details-url", default="", metavar="URL", help="URL of the full text, for a link."
        ),
        click.option(
            "--artifact-url",
            default="",
            metavar="URL",
            help="Where the HTML page of the plan, or the outcome, was uploaded; linked.",
        ),
        click.option(
            "--commit",
            default="",
            metavar="SHA",
            help="Commit to name, instead of the one in DOCUMENT (GitHub checks out a merge commit).",
        ),
        click.option("--issue", is_flag=True, help="Open, update or close one issue (for drift)."),
        click.option(
            "--failed",
            type=click.IntRange(1, 255),
            metavar="CODE",
            help="DOCUMENT is the error output of a plan that failed with this exit code; it replaces an older plan.",
        ),
        click.option(
            "--required", is_flag=True, help="Exit 1 if the code host cannot be reached or refuses."
        ),
        click.option(
            "--api-url",
            default=api,
            envvar=api_variable,
            show_default=True,
            metavar="URL",
            help=f"Address of the API  [env: {api_variable}].",
        ),
    ]
    fields = [
        "document",
        "label",
        "title",
        "method",
        "details_url",
        "artifact_url",
        "commit",
        "issue",
        "failed",
        "required",
        "api_url",
    ]
    decorate: Callable[[F], F] = packed("wanted", PostOptions, fields, options)
    return decorate


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequestOptions:
    """Which pull request, as it was typed."""

    repo: str
    pull: int | None
    sha: str
    head_repo: str
    head_branch: str
    author: str

    def __post_init__(self) -> None:
        if bool(self.sha) != bool(self.head_repo):
            raise UsageError(
                "--sha and --head-repo go together: a commit may be the head of several repositories"
            )


_PLACE: Final = (
    (
        "repo",
        click.option(
            "--repo",
            default="",
            envvar="GITHUB_REPOSITORY",
            metavar="OWNER/NAME",
            help="Repository  [env: GITHUB_REPOSITORY].",
        ),
    ),
    (
        "pull",
        click.option(
            "--pull",
            type=click.IntRange(min=1),
            metavar="NUMBER",
            help="Number of the pull request.",
        ),
    ),
    (
        "sha",
        click.option("--sha", default="", metavar="SHA", help="Head commit of the pull request."),
    ),
    (
        "head_repo",
        click.option(
            "--head-repo", default="", metavar="OWNER/NAME", help="Repository of the head commit."
        ),
    ),
    (
        "head_branch",
        click.option(
            "--head-branch", default="", metavar="NAME", help="Branch of the head commit, if known."
        ),
    ),
    (
        "author",
        click.option(
            "--author",
            default="",
            metavar="LOGIN",
            help="Author of kquota's comments if the token is that of another app, such as my-app[bot].",
        ),
    ),
)


def place_options(function: F) -> F:
    """The options of :class:`PullRequestOptions`, handed over as ``place``."""
    names, options = [name for name, _ in _PLACE], [option for _, option in _PLACE]
    decorate: Callable[[F], F] = packed("place", PullRequestOptions, names, options)
    return decorate(function)
