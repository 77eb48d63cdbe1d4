"""``kquota post``, for CI: posts a plan as a comment, summary and annotations, or drift as an issue."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click
from msgspec.structs import replace

from reconciler.app.requests import PostRequest
from reconciler.base.installation import needs
from reconciler.cli.framework.commands import ExitCode, flag, group, option
from reconciler.cli.framework.console import Console
from reconciler.cli.options.shared import FILE, OptionPack
from reconciler.errors import ForgeError, KquotaError

HELP: Final = """Post a plan, an outcome or drift to a code host.

DOCUMENT is the file of `plan --out`, `apply --out` or `drift --format json`. It is checked and rendered here; no text in
it is taken as Markdown, and nothing in it says where to post. The token comes from the environment (GITHUB_TOKEN),
never from an argument.

If the host refuses or does not answer, the command prints a warning and exits 0, so that a failed comment does not fail a
plan; with --required it exits 1. An edited, truncated or unknown document exits 1; a document of another format version exits 4.

\b
Example:
  kquota post github plan.json --label prod --pull 7 --summary"""

GITHUB_HELP: Final = """A comment per label on a pull request, a job summary, annotations, outputs; an issue for drift.

An existing comment is identified by a hidden marker and its author. The pull request is given by --pull, or looked up by
the head that the run belongs to (--head-repo, --sha); given both, they must agree. Without them no comment is
written. With --head-repo, the document may come from a run of a fork; documents above 5 MB are refused.

\b
Example:
  kquota post github plan.json --label prod --pull 7 --summary --annotations
  kquota post github plan.json --head-repo someone/fork --sha "$HEAD_SHA" --details-url "$RUN_URL"
  kquota post github drift.json --issue --label prod"""

REVIEWED_HELP: Final = """Fetch the plan that was reviewed before a merge (GitHub): an artifact of the run for that head.

--commit is the commit on the base branch that the merge made; its pull request and head are looked up. The newest
successful run of --workflow for that head has the artifact, a zip with plan.json. The file is untrusted
until `kquota apply plan.json` has made the plan again and compared.

\b
Example:
  kquota post reviewed --commit "$GITHUB_SHA" --workflow quotas-plan.yml --artifact kquota-plan-prod --out plan.json"""


api_option: Final = option(
    "--api-url URL",
    "Address of the API  [env: GITHUB_API_URL].",
    default="https://api.github.com",
    envvar="GITHUB_API_URL",
)


def _repository_option(*, required: bool) -> Callable[[Any], Any]:
    """Return ``--repo``; "" if it is neither required nor given."""
    return option(
        "--repo OWNER/NAME",
        "Repository  [env: GITHUB_REPOSITORY].",
        # A default of None would count as a value, so a required option has none.
        **({"required": True} if required else {"default": ""}),
        envvar="GITHUB_REPOSITORY",
    )


post_options: Final = OptionPack(
    "request",
    PostRequest,
    (
        click.argument("document", type=FILE, metavar="DOCUMENT"),
        option(
            "--label NAME",
            "Name of the environment; each label has its own comment.",
            default="",
        ),
        option("--title", "Heading, instead of the label.", default=""),
        option("--details-url URL", "URL of the full text, for a link.", default=""),
        option(
            "--artifact-url URL",
            "Where the HTML page of the plan, or the outcome, was uploaded; linked.",
            default="",
        ),
        option(
            "--commit SHA",
            "Commit to name, instead of the one in DOCUMENT (GitHub checks out a merge commit).",
            default="",
        ),
        flag("--issue", "Open, update or close one issue (for drift)."),
        flag("--required", "Exit 1 if the code host cannot be reached or refuses."),
        api_option,
        _repository_option(required=False),
        option("--pull NUMBER", "Number of the pull request.", click.IntRange(min=1)),
        option("--sha SHA", "Head commit of the pull request.", default=""),
        option("--head-repo OWNER/NAME", "Repository of the head commit.", default=""),
        option("--head-branch NAME", "Branch of the head commit, if known.", default=""),
        option(
            "--author LOGIN",
            "Author of kquota's comments if the token is that of another app, such as my-app[bot].",
            default="",
        ),
    ),
)
"""The options of :class:`PostRequest`, passed as ``request``."""


@group(help=HELP, no_args_is_help=True)
def post() -> None:
    """Hold the commands."""


@post.command("github", help=GITHUB_HELP)
@post_options
@flag("--summary", "Write the job summary (GITHUB_STEP_SUMMARY).")
@flag("--outputs", "Write the step's outputs (GITHUB_OUTPUT).")
@flag("--annotations", "Print annotations for the lines of the rules.")
@option("--path-prefix DIR", "Folder in the repository that paths start from.", default="")
@click.pass_obj
def github(
    console: Console,
    *,
    request: PostRequest,
    summary: bool,
    outputs: bool,
    annotations: bool,
    path_prefix: str,
) -> ExitCode:
    """Write the runner's files, then post to GitHub."""
    needs("http", "kquota post")
    from reconciler.app.event_loop import run
    from reconciler.app.post import github
    from reconciler.app.post.content import content_of

    request = replace(request, commit=request.commit or request.sha)
    content = content_of(request, untrusted=github.fork_of(request))
    if summary:
        github.write_summary(content)
    if annotations:
        for line in github.annotation_lines(content, prefix=path_prefix):
            console.workflow_command(line)
        console.flush()
    facts = dict(content.outputs)
    try:
        facts |= run(github.post_to_github(console, content))
    except KquotaError as error:
        if content.request.required or not isinstance(error, ForgeError):
            raise
        console.warning(f"posting failed: {error.message}")
        console.hint(error.hint)
    finally:
        if outputs:
            github.write_outputs(facts)
    return ExitCode.DONE


@post.command("reviewed", help=REVIEWED_HELP)
@option("--commit SHA", "Commit on the base branch that the merge created.", required=True)
@option("--workflow FILE", "File name of the workflow that plans.", required=True)
@option("--artifact NAME", "Name of the artifact with the plan.", required=True)
@option("--out FILE", "File to write the plan to.", FILE, name="out_path", required=True)
@flag("--outputs", "Write the step's outputs (GITHUB_OUTPUT): plan, pull, digest.")
@_repository_option(required=True)
@api_option
@click.pass_obj
def fetch_reviewed(
    console: Console,
    *,
    commit: str,
    workflow: str,
    artifact: str,
    out_path: Path,
    outputs: bool,
    repo: str,
    api_url: str,
) -> ExitCode:
    """Fetch the artifact, check that it is a plan, write it."""
    needs("http", "kquota post")
    from reconciler.app.event_loop import run
    from reconciler.app.post import github
    from reconciler.base.text_files import write_text
    from reconciler.codecs.plan import read_plan

    text, pull = run(
        github.fetch_reviewed_plan(
            api_url, repo, commit=commit, workflow=workflow, artifact=artifact
        )
    )
    digest = read_plan(text, location=f"the plan of pull request {pull}").digest
    write_text(out_path, text, private=True)
    if outputs:
        facts = {"plan": str(out_path.absolute()), "pull": str(pull), "digest": digest}
        github.write_outputs(facts)
    console.fact(digest)
    console.note(f"the plan that was reviewed in pull request {pull} is in {out_path}")
    return ExitCode.DONE
