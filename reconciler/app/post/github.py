"""``kquota post github``: writes the runner's files and posts a comment or an issue; fetches a reviewed plan."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Final

from msgspec.structs import replace

from reconciler import __version__
from reconciler.app.notices import TextReceiver
from reconciler.app.post.content import PostContent
from reconciler.app.requests import PostRequest
from reconciler.base.clock import SystemClock
from reconciler.base.secret import Secret
from reconciler.errors import ForgeError, UsageError
from reconciler.forge import github as host
from reconciler.forge import github_runner
from reconciler.forge.rest_client import RestClient, forge_token
from reconciler.forge.reviewed_plan import reviewed_plan
from reconciler.forge.sticky_comment import IssueResult, post, update_issue
from reconciler.render.markdown.comment import MOST_ROWS
from reconciler.render.source_findings import findings_of, plan_findings

TOKEN: Final = "GITHUB_TOKEN"  # noqa: S105 - the name of a variable


def open_client(api_url: str) -> RestClient:
    """Return a client with the token of the environment."""
    return host.github(api_url, _token(), clock=SystemClock(), version=__version__)


def fork_of(place: PostRequest) -> str:
    """Return the fork of the head; "" = the repository itself, or unknown."""
    if place.head_repo and place.head_repo.casefold() != place.repo.casefold():
        return host.checked_repository(place.head_repo)
    return ""


def write_summary(content: PostContent) -> None:
    """Write the text as job summary, shortened to the runner's limit.

    Raises:
        UsageError: This is not a step of a workflow.
    """
    path = _file("GITHUB_STEP_SUMMARY", "--summary")
    room = github_runner.room_in(path)
    limit = room
    text = content.body(limit, github_runner.SUMMARY_ROWS)
    while len(text.encode()) > room and limit > 0:  # the limit counts characters, the runner bytes
        limit = limit * room // len(text.encode()) - 1
        text = content.body(max(limit, 0), github_runner.SUMMARY_ROWS)
    if len(text.encode()) <= room:
        github_runner.write_summary(path, text + "\n")


def annotation_lines(content: PostContent, *, prefix: str) -> Iterable[str]:
    """Return the findings as workflow commands that annotate the lines of rules."""
    findings = findings_of(content.problems)
    if content.preview is not None:
        findings += plan_findings(content.preview, content.recorded)
    title = content.request.title or f"Kafka quotas {content.request.label}".rstrip()
    # Code hosts require paths relative to the root of the repository.
    return github_runner.annotation_lines(
        (
            replace(finding, path=str(PurePosixPath(prefix, finding.path)) if finding.path else "")
            for finding in findings
        ),
        title=title,
    )


def write_outputs(facts: Mapping[str, str]) -> None:
    """Write outputs for the next step.

    Raises:
        UsageError: This is not a step of a workflow.
    """
    github_runner.write_outputs(_file("GITHUB_OUTPUT", "--outputs"), facts)


async def post_to_github(notices: TextReceiver, content: PostContent) -> Mapping[str, str]:
    """Write the comment or the issue; return its id, number or URL as outputs for the next step.

    Raises:
        UsageError: No repository is given.
        ForgeError: GitHub cannot be reached, or refuses a request.
    """
    place = content.request
    if content.incident is None and place.pull is None and not place.sha:
        notices.note("no comment: --pull and --sha are not given")
        return {}
    if not place.repo:
        raise UsageError("no repository given", hint="pass --repo owner/name")
    async with open_client(place.api_url) as client:
        repository = host.GitHub(client, place.repo, author=place.author)
        if content.incident is None:
            return await _comment(notices, content, repository, await _pull(repository, place))
        result = await _update_incident(notices, content, repository)
        return {} if result.issue is None else {"issue": str(result.issue.number)}


async def _pull(repository: host.GitHub, place: PostRequest) -> int:
    """Return the pull request: the given one, checked against a given head, or the one of that head."""
    if not place.sha:
        assert place.pull is not None  # noqa: S101 - checked before
        return place.pull
    head = host.PullRequestHead(
        repository=place.head_repo or place.repo, sha=place.sha, branch=place.head_branch
    )
    if place.pull is None:
        return await repository.pull_of(head)
    await repository.check_pull(place.pull, head)
    return place.pull


async def _comment(
    notices: TextReceiver, content: PostContent, repository: host.GitHub, number: int
) -> Mapping[str, str]:
    comment = await post(
        repository.comments_of(number),
        content.marker,
        content.body(host.COMMENT_CHARACTERS, MOST_ROWS),
    )
    notices.note(f"pull request {number}: comment {comment.action}")
    if comment.action == "created":
        await _check_author(notices, repository, comment.note.author)
    return {"comment-id": str(comment.note.id), "comment-url": comment.note.url}


async def _check_author(notices: TextReceiver, repository: host.GitHub, author: str) -> None:
    """Warn if the next run would not find this comment again."""
    own_name = await repository.own_name()
    if own_name.casefold() != author.casefold():
        notices.warning(
            f"the comment was written by {author}, but {own_name} was expected; pass --author {author}"
        )


async def fetch_reviewed_plan(
    api_url: str, repository: str, *, commit: str, workflow: str, artifact: str
) -> tuple[str, int]:
    """Fetch the plan that was reviewed before a commit was merged; return it and its pull request."""
    async with open_client(api_url) as client:
        host_repository = host.GitHub(client, repository)
        number, head = await host_repository.pull_merged_as(commit)
        return await reviewed_plan(
            host_repository, number, head, workflow=workflow, artifact=artifact
        ), number


def _file(variable: str, option: str) -> Path:
    name = os.environ.get(variable, "")
    if not name:
        raise UsageError(f"{option} is for steps of a workflow: {variable} is not set")
    return Path(name)


def _token() -> Secret:
    """Return the token from the environment.

    Raises:
        ForgeError: It is not set, as in a CI job of a fork.
    """
    text = os.environ.get(TOKEN, "")
    if not text.strip():
        raise ForgeError(
            f"{TOKEN} is not set",
            hint=f"set {TOKEN}; the token is read only from the environment",
        )
    return forge_token(text)


async def _update_incident(
    notices: TextReceiver, content: PostContent, repository: host.GitHub
) -> IssueResult:
    """Open, update or close the issue about drift; leave it if the report had no records to compare with."""
    incident = content.incident
    assert incident is not None  # noqa: S101 - checked by the caller
    if not incident.is_known:
        notices.warning(
            "the report had no ownership records to compare with, so the issue about drift is left as it is"
        )
        return IssueResult(action="nothing", issue=None)
    result = await update_issue(
        repository,
        content.marker,
        title=incident.title,
        body=incident.body(host.COMMENT_CHARACTERS),
        recovered=incident.recovered,
    )
    notices.note(f"issue about drift: {result.action}")
    return result
