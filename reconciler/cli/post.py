"""``kquota post``: a plan as a comment, summary and annotations; drift as an issue. What CI steps call."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from reconciler.cli.console import Console
from reconciler.cli.exits import Exit
from reconciler.cli.options import FILE, packed
from reconciler.errors import KquotaError, UsageError

if TYPE_CHECKING:
    from reconciler.cli.posting import Letter
    from reconciler.forge.sticky import Method

F = TypeVar("F", bound=Callable[..., Any])

HELP: Final = """Tell a code host what a plan, an apply or a look for drift found.

DOCUMENT is what `plan --out`, `apply --out` or `drift --format json` wrote. It is checked and rendered here; no text in
it is taken as Markdown, and nothing in it says where to post. The token comes from the environment (GITHUB_TOKEN,
GITLAB_TOKEN), never from an argument.

A host that refuses, or does not answer, is a warning and exit 0, so that a failing comment never fails a plan;
with --required it is exit 1. A document that is edited, cut off or no plan is exit 1; one of another format is 4."""

GITHUB_HELP: Final = """A comment per label on a pull request, a job summary, annotations, outputs; an issue for drift.

The comment is found again by a hidden marker and by its author. The pull request is given by --pull, or looked up by
the head that the run belongs to (--head-repo, --sha); given both, they must agree. Without either no comment is
written. With --head-repo the document may come from another run, and from anybody: it has at most 5 MB then.

\b
Example:
  kquota post github plan.json --label prod --pull 7 --summary --annotations
  kquota post github plan.json --head-repo someone/fork --sha "$HEAD_SHA" --details-url "$RUN_URL"
  kquota post github drift.json --issue --label prod"""

GITLAB_HELP: Final = """A note per label on a merge request, reports for GitLab's own widgets; an issue for drift.

In a pipeline of a merge request everything but the token is known from the environment. The token is
that of a project access token with scope api (job tokens cannot write notes).

\b
Example:
  kquota post gitlab plan.json --label prod --terraform-report report.json
  kquota post gitlab said.txt --failed 1 --label prod
  kquota post gitlab drift.json --issue --label prod"""

REVIEWED_HELP: Final = """Fetch the plan that was reviewed before a merge (GitHub): an artifact of the run for that head.

--commit is the commit on the base branch that the merge made; its pull request and head are looked up. The newest
successful run of --workflow for that head has the artifact, a zip with plan.json. The file is untrusted
until `kquota apply plan.json` has made the plan again and compared.

\b
Example:
  kquota post reviewed --commit "$GITHUB_SHA" --workflow quotas-plan.yml --artifact kquota-plan-prod --out plan.json"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """What is posted and how, as it was typed; the same for every host."""

    document: Path
    label: str
    title: str
    method: "Method"
    details_url: str
    issue: bool
    failed: int | None
    required: bool
    api_url: str


def _options(*, api: str, api_variable: str) -> Callable[[F], F]:
    options = [
        click.argument("document", type=FILE, metavar="DOCUMENT"),
        click.option("--label", default="", metavar="NAME", help="Which environment; one comment for each label."),
        click.option("--title", default="", help="Heading, instead of the label."),
        click.option("--method", type=click.Choice(("update", "recreate", "on-change", "never")), default="update",
                     show_default=True, help="on-change begins no comment for a plan with nothing to say."),
        click.option("--details-url", default="", metavar="URL", help="Where the full text is; linked."),
        click.option("--issue", is_flag=True, help="For drift: open, update or close one issue."),
        click.option("--failed", type=click.IntRange(1, 255), metavar="CODE",
                     help="DOCUMENT is what a plan said that failed with this code; it is told in place of an older plan."),
        click.option("--required", is_flag=True, help="Exit 1 if the host cannot be told."),
        click.option("--api-url", default=api, envvar=api_variable, show_default=True, metavar="URL",
                     help=f"Address of the API  [env: {api_variable}]."),
    ]  # fmt: skip
    fields = [
        "document",
        "label",
        "title",
        "method",
        "details_url",
        "issue",
        "failed",
        "required",
        "api_url",
    ]
    decorate: Callable[[F], F] = packed("wanted", Post, fields, options)
    return decorate


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
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
    ("repo", click.option("--repo", default="", envvar="GITHUB_REPOSITORY", metavar="OWNER/NAME",
        help="The repository  [env: GITHUB_REPOSITORY].")),
    ("pull", click.option("--pull", type=click.IntRange(min=1), metavar="NUMBER", help="The pull request.")),
    ("sha", click.option("--sha", default="", metavar="SHA", help="Head commit of the pull request.")),
    ("head_repo", click.option("--head-repo", default="", metavar="OWNER/NAME", help="Repository of the head.")),
    ("head_branch", click.option("--head-branch", default="", metavar="NAME", help="Branch of the head, if known.")),
    ("author", click.option("--author", default="", metavar="LOGIN",
        help="Whose comments are ours, for the token of an app of your own, such as my-app[bot].")),
)  # fmt: skip


def _place_options(function: F) -> F:
    names, options = [name for name, _ in _PLACE], [option for _, option in _PLACE]
    decorate: Callable[[F], F] = packed("place", Place, names, options)
    return decorate(function)


@click.group(help=HELP, no_args_is_help=True)
def post() -> None:
    """Only the place of the commands."""


@post.command("github", help=GITHUB_HELP)
@_options(api="https://api.github.com", api_variable="GITHUB_API_URL")
@_place_options
@click.option("--summary", is_flag=True, help="Write the job summary (GITHUB_STEP_SUMMARY).")
@click.option("--outputs", is_flag=True, help="Write the step's outputs (GITHUB_OUTPUT).")
@click.option("--annotations", is_flag=True, help="Print remarks beside the lines of rules.")
@click.option("--sarif", type=FILE, metavar="FILE", help="Write the same remarks as SARIF, for code scanning.")  # fmt: skip
@click.option("--path-prefix", default="", metavar="DIR", help="Folder in the repository that paths start from.")  # fmt: skip
@click.pass_obj
def github(
    console: Console,
    *,
    wanted: Post,
    place: Place,
    summary: bool,
    outputs: bool,
    annotations: bool,
    sarif: Path | None,
    path_prefix: str,
) -> Exit:
    """The runner's files first, then the host."""
    from reconciler.cli.extras import needs

    needs("http", "kquota post")
    from reconciler.cli import posting, posting_github

    fork = posting_github.fork_of(place)
    letter = posting.letter_of(wanted, foreign=bool(place.head_repo), untrusted=fork)
    if summary:
        posting_github.write_summary(letter)
    if annotations:
        posting_github.print_annotations(console, letter, prefix=path_prefix)
    if sarif is not None:
        posting_github.write_sarif(letter, sarif, prefix=path_prefix)
    facts = dict(letter.outputs)
    try:
        facts |= posting.run_told(posting_github.told(console, letter, place))
    except KquotaError as error:
        return _failed(console, letter, error)
    finally:
        if outputs:
            posting_github.write_outputs(facts)
    return Exit.DONE


@post.command("gitlab", help=GITLAB_HELP)
@_options(api="https://gitlab.com/api/v4", api_variable="CI_API_V4_URL")
@click.option("--project", default="", envvar="CI_PROJECT_ID", metavar="ID", help="Number or path of the project  [env: CI_PROJECT_ID].")  # fmt: skip
@click.option("--merge-request", type=click.IntRange(min=1), envvar="CI_MERGE_REQUEST_IID", metavar="NUMBER", help="The merge request  [env: CI_MERGE_REQUEST_IID].")  # fmt: skip
@click.option("--sha", default="", metavar="SHA", help="Its head; another head is refused.")
@click.option("--terraform-report", type=FILE, metavar="FILE", help="Write the counts for the widget of merge requests.")  # fmt: skip
@click.option("--code-quality", type=FILE, metavar="FILE", help="Write remarks beside the lines of rules.")  # fmt: skip
@click.pass_obj
def gitlab(
    console: Console,
    *,
    wanted: Post,
    project: str,
    merge_request: int | None,
    sha: str,
    terraform_report: Path | None,
    code_quality: Path | None,
) -> Exit:
    """The reports first, then the host."""
    from reconciler.cli.extras import needs

    needs("http", "kquota post")
    from reconciler.cli import posting, posting_gitlab

    letter = posting.letter_of(wanted)
    posting_gitlab.write_reports(letter, terraform=terraform_report, quality=code_quality)
    try:
        posting.run_told(posting_gitlab.told(console, letter, project, merge_request, sha))
    except KquotaError as error:
        return _failed(console, letter, error)
    return Exit.DONE


@post.command("reviewed", help=REVIEWED_HELP)
@click.option("--commit", required=True, metavar="SHA", help="What the merge made on the base branch.")  # fmt: skip
@click.option("--workflow", required=True, metavar="FILE", help="File name of the workflow that plans.")  # fmt: skip
@click.option("--artifact", required=True, metavar="NAME", help="Name of its artifact.")
@click.option("--out", type=FILE, required=True, metavar="FILE", help="Where the plan goes.")
@click.option("--outputs", is_flag=True, help="Write the step's outputs (GITHUB_OUTPUT): plan, pull, digest.")  # fmt: skip
@click.option("--repo", required=True, envvar="GITHUB_REPOSITORY", metavar="OWNER/NAME", help="The repository  [env: GITHUB_REPOSITORY].")  # fmt: skip
@click.option("--api-url", default="https://api.github.com", envvar="GITHUB_API_URL", show_default=True, metavar="URL", help="Address of the API  [env: GITHUB_API_URL].")  # fmt: skip
@click.pass_obj
def reviewed(
    console: Console,
    *,
    commit: str,
    workflow: str,
    artifact: str,
    out: Path,
    outputs: bool,
    repo: str,
    api_url: str,
) -> Exit:
    """Fetch, check that it is a plan, write."""
    from reconciler.cli.extras import needs

    needs("http", "kquota post")
    from reconciler.cli import posting, posting_github
    from reconciler.cli.files import write_text
    from reconciler.render.read_preview import read_preview

    text, pull = posting.run_told(
        posting_github.fetched(api_url, repo, commit=commit, workflow=workflow, artifact=artifact)
    )
    digest = read_preview(text, where=f"the plan of pull request {pull}").plan.digest
    write_text(out, text)
    if outputs:
        facts = {"plan": str(out.absolute()), "pull": str(pull), "digest": digest}
        posting_github.write_outputs(facts)
    console.fact(digest)
    console.note(f"the plan that was reviewed in pull request {pull} is in {out}")
    return Exit.DONE


def _failed(console: Console, letter: "Letter", error: KquotaError) -> Exit:
    """A host that could not be told: a warning, unless it is required.

    Raises:
        KquotaError: It is required, or the fault is in what was typed.
    """
    from reconciler.errors import ForgeError

    if letter.wanted.required or not isinstance(error, ForgeError):
        raise error
    console.warning(f"nothing was posted: {error.message}")
    console.hint(error.hint)
    return Exit.DONE
