"""``kquota post github``: the runner's files, then comment or issue; and the plan that was reviewed."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Final

from reconciler import __version__
from reconciler.base.clock import SystemClock
from reconciler.base.text_files import write_text
from reconciler.cli.framework.console import Console
from reconciler.cli.post.comment import PostContent, token_of
from reconciler.cli.post.options import PullRequestOptions
from reconciler.errors import UsageError
from reconciler.forge import github as host
from reconciler.forge import github_runner
from reconciler.forge.token import forge_token
from reconciler.render.json_values import dump
from reconciler.render.markdown.comment import MOST_ROWS
from reconciler.render.sarif import RULES, SarifResult, plan_findings, sarif_document

TOKEN: Final = "GITHUB_TOKEN"  # noqa: S105 - the name of a variable

_LEVELS: Final[Mapping[str, github_runner.Level]] = {
    "error": "error",
    "warning": "warning",
    "note": "notice",
}


def fork_of(place: PullRequestOptions) -> str:
    """The fork that the head is in; "" = the repository itself, or not known."""
    if place.head_repo and place.head_repo.casefold() != place.repo.casefold():
        return host.checked_repository(place.head_repo)
    return ""


def write_summary(letter: PostContent) -> None:
    """The whole text as the summary of the job, as far as the runner takes it.

    Raises:
        UsageError: This is no step of a workflow.
    """
    path = _file("GITHUB_STEP_SUMMARY", "--summary")
    room = github_runner.room_in(path)
    limit = room
    text = letter.body(limit, github_runner.SUMMARY_ROWS)
    while len(text.encode()) > room and limit > 0:  # the limit counts characters, the runner bytes
        limit = limit * room // len(text.encode()) - 1
        text = letter.body(max(limit, 0), github_runner.SUMMARY_ROWS)
    if len(text.encode()) <= room:
        github_runner.write_summary(path, text + "\n")


def _findings(letter: PostContent, prefix: str) -> tuple[SarifResult, ...]:
    """Remarks with paths from the top of the repository, where code hosts look for them."""
    if letter.preview is None:
        return ()
    return tuple(
        replace(finding, path=str(PurePosixPath(prefix, finding.path)) if finding.path else "")
        for finding in plan_findings(letter.preview, letter.recorded)
    )


def write_sarif(letter: PostContent, path: Path, *, prefix: str) -> None:
    """Remarks for code scanning.

    Raises:
        UsageError: The file cannot be written.
    """
    write_text(path, dump(sarif_document(_findings(letter, prefix), tool_version=__version__)))


def print_annotations(console: Console, letter: PostContent, *, prefix: str) -> None:
    """Remarks beside the lines of rules, as workflow commands."""
    annotations = [
        github_runner.Annotation(
            level=_LEVELS[RULES[finding.rule][0]],
            path=finding.path,
            line=finding.line,
            message=finding.message,
        )
        for finding in _findings(letter, prefix)
    ]
    title = letter.options.title or f"Kafka quotas {letter.options.label}".rstrip()
    for line in github_runner.annotation_lines(annotations, title=title):
        console.workflow_command(line)
    console.flush()


def write_outputs(facts: Mapping[str, str]) -> None:
    """Facts for the next step.

    Raises:
        UsageError: This is no step of a workflow.
    """
    github_runner.write_outputs(_file("GITHUB_OUTPUT", "--outputs"), facts)


async def post_to_github(
    console: Console, letter: PostContent, place: PullRequestOptions
) -> Mapping[str, str]:
    """Comment or issue; what the next step may want to know of it.

    Raises:
        ForgeError: The host refuses, or the pull request cannot be found.
    """
    by_head = bool(place.sha)
    wants_comment = (place.pull is not None or by_head) and letter.options.method != "never"
    if letter.incident is None and not wants_comment:
        return {}
    if not place.repo:
        raise UsageError("no repository was named", hint="--repo owner/name")
    token = forge_token(token_of(TOKEN))
    clock = SystemClock()
    async with host.github(
        letter.options.api_url, token, clock=clock, version=__version__
    ) as client:
        repository = host.GitHub(client, place.repo, author=place.author)
        if letter.incident is not None:
            return await _issue(console, letter, repository)
        return await _comment(console, letter, repository, await _pull(repository, place))


async def _pull(repository: host.GitHub, place: PullRequestOptions) -> int:
    """The pull request: as given, checked where the head is known, or looked up by it."""
    if not place.sha:
        assert place.pull is not None  # noqa: S101 - checked before
        return place.pull
    head = host.PullRequestHead(repository=place.head_repo, sha=place.sha, branch=place.head_branch)
    if place.pull is None:
        return await repository.pull_of(head)
    await repository.check_pull(place.pull, head)
    return place.pull


async def _comment(
    console: Console, letter: PostContent, repository: host.GitHub, number: int
) -> Mapping[str, str]:
    from reconciler.forge.sticky_comment import post

    comment = await post(
        host.PullComments(repository, number),
        letter.marker,
        letter.body(host.COMMENT_CHARACTERS, MOST_ROWS),
        method=letter.options.method,
        is_quiet=letter.is_quiet,
    )
    console.note(f"pull request {number}: comment {comment.deed}")
    if comment.note is None:
        return {}
    if comment.deed == "created":
        await _check_author(console, repository, comment.note.author)
    return {"comment-id": str(comment.note.id), "comment-url": comment.note.url}


async def _check_author(console: Console, repository: host.GitHub, author: str) -> None:
    """Warn if the next run would not know this comment again."""
    own_name = await repository.own_name()
    if own_name.casefold() != author.casefold():
        console.warning(
            f"the comment was written by {author}, and {own_name} was expected; say --author {author}"
        )


async def _issue(
    console: Console, letter: PostContent, repository: host.GitHub
) -> Mapping[str, str]:
    from reconciler.forge.drift_issue import update_issue

    assert letter.incident is not None  # noqa: S101 - checked before
    issue = await update_issue(
        repository,
        letter.marker,
        title=letter.incident.title,
        body=letter.incident.body(host.COMMENT_CHARACTERS),
        recovered=letter.incident.recovered,
    )
    console.note(f"issue about drift: {issue.deed}")
    return {} if issue.issue is None else {"issue": str(issue.issue.number)}


async def fetched(
    api_url: str, repository: str, *, commit: str, workflow: str, artifact: str
) -> tuple[str, int]:
    """The plan that was reviewed before a commit was merged, and its pull request.

    Raises:
        ForgeError: There is none.
    """
    from reconciler.forge.reviewed_plan import reviewed_plan

    token = forge_token(token_of(TOKEN))
    async with host.github(api_url, token, clock=SystemClock(), version=__version__) as client:
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
