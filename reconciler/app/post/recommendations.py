"""``kquota post recommendations``: reads the report and the files of ``spark recommend``, and keeps a pull request with them up to date."""

import errno
from pathlib import Path
from typing import Final

from reconciler.app.notices import TextReceiver
from reconciler.app.post import github as github_post
from reconciler.app.post import gitlab as gitlab_post
from reconciler.app.post.content import run_link
from reconciler.app.recorded_use.recommended_files import MARK
from reconciler.app.requests import RecommendationsRequest
from reconciler.base.escaping import markdown
from reconciler.base.text_files import read_text
from reconciler.errors import UsageError
from reconciler.evidence.render.report_json import read_recommendations
from reconciler.evidence.render.report_text import report_markdown
from reconciler.forge import github, gitlab
from reconciler.forge.github_pulls import GitHubPulls
from reconciler.forge.gitlab_merge_requests import GitLabMergeRequests
from reconciler.forge.marker import Marker
from reconciler.forge.pull_request import (
    Proposal,
    ProposedFiles,
    PullRequestAction,
    PullRequestHost,
    update_pull_request,
)
from reconciler.usage.impact.tier_policy import own_entity
from reconciler.usage.recommendation.limit_sizes import Advice
from reconciler.usage.reports.usage import UsageReport

MAX_FILE_BYTES: Final = 1024 * 1024
"""Maximum size of a file of recommendations: GitHub's API takes no larger request reliably."""

_ROOM: Final = 500
"""Characters of marker and fingerprint, which are written before the text."""

_INTRODUCTION: Final = """\
`kquota spark recommend` computed these limits from recorded use. **Merging this applies nothing:** the files are outside of `spec.manifests`.
Move the documents that you accept into the manifests; the plan of that change then shows what it does.
If you close this pull request, the same recommendation is not proposed again."""

_ENDED: Final = "Nothing is left to recommend: no limit should change any more, or the base branch has the same documents."

_NOTES: Final[dict[PullRequestAction, str]] = {
    "opened": "opened",
    "updated": "updated",
    "unchanged": "unchanged: it has the same documents",
    "answered": "was merged or closed with the same recommendation, so it is not proposed again",
    "closed": "closed: nothing is recommended any more",
}


def proposal_of(request: RecommendationsRequest, *, limit: int) -> Proposal:
    """Read the report and the files, and render the text of the pull request.

    Args:
        limit: Maximum number of characters of the text.

    Raises:
        ConfigError: The report is edited, truncated or not from ``spark recommend``.
        UsageError: A file cannot be read or is in a place that must not be written.
    """
    text = read_text(request.document)
    report = read_recommendations(text, location=str(request.document))
    proposed = ProposedFiles(
        folder=request.folder.as_posix(), files=_own_files(request.folder), mark=MARK
    )
    changes = [
        row
        for row in report.recommendations
        if row.advice is Advice.CHANGE and own_entity(row.bucket) is not None
    ]
    if changes and not proposed.files:
        raise UsageError(
            f"{request.document} recommends changes, but {request.folder} has no file of kquota spark recommend",
            hint=f"run both from one job: kquota spark recommend --out {request.folder} --format json",
        )
    name = f": {request.label}" if request.label else ""
    title = request.title or f"Recommended Kafka quotas{name}"
    details = run_link(request.details_url)
    return Proposal(
        marker=Marker(kind="recommendations", label=request.label),
        proposed=proposed,
        title=title,
        body=_body(report, proposed, details, limit=limit - _ROOM),
        ended="\n\n".join(filter(None, (_ENDED, details))),
    )


async def propose_on_github(
    notices: TextReceiver, request: RecommendationsRequest, repository: str, author: str
) -> None:
    """Open, update or close the pull request."""
    proposal = proposal_of(request, limit=github.COMMENT_CHARACTERS)
    async with github_post.open_client(request.api_url) as client:
        host = github.GitHub(client, repository, author=author)
        await _update(notices, GitHubPulls(host, request.base), proposal, "pull request")


async def propose_on_gitlab(
    notices: TextReceiver, request: RecommendationsRequest, project: str
) -> None:
    """Open, update or close the merge request."""
    proposal = proposal_of(request, limit=gitlab.NOTE_CHARACTERS)
    async with gitlab_post.open_client(request.api_url) as client:
        host = GitLabMergeRequests(gitlab.GitLab(client, project), request.base)
        await _update(notices, host, proposal, "merge request")


async def _update(
    notices: TextReceiver, host: PullRequestHost, proposal: Proposal, name: str
) -> None:
    result = await update_pull_request(host, proposal)
    if result.pull is None:
        notices.note(f"no {name}: nothing is recommended")
        return
    notices.note(f"{name} {result.pull.number} {_NOTES[result.action]} {result.pull.url}".rstrip())
    own_name, author = await host.own_name(), result.pull.author
    if own_name.casefold() != author.casefold():
        notices.warning(
            f"the {name} was opened by {author}, but {own_name} was expected, so the next run would not change it;"
            f" pass --author {author}"
        )


def _own_files(folder: Path) -> dict[str, str]:
    """Return the files of recommendations in a folder by name; {} if there is no folder.

    Raises:
        UsageError: The folder or a file cannot be read.
    """
    try:
        names = sorted(path.name for path in folder.iterdir() if path.suffix == ".yaml")
    except OSError as error:
        if error.errno == errno.ENOENT:
            return {}
        raise UsageError(f"{folder} cannot be read: {error.strerror or error}") from error
    texts = {name: read_text(folder / name, max_bytes=MAX_FILE_BYTES) for name in names}
    return {name: text for name, text in texts.items() if text.startswith(MARK)}


def _body(report: UsageReport, proposed: ProposedFiles, details: str, *, limit: int) -> str:
    """Return the text with as many rows of each table as fit."""
    files = "\n".join(f"- {markdown(path)}" for path in sorted(proposed.texts))
    rows = max(len(report.recommendations), len(report.evidence))
    while True:
        parts = (_INTRODUCTION, files, report_markdown(report, max_rows=rows).rstrip("\n"), details)
        text = "\n\n".join(filter(None, parts)) + "\n"
        if len(text) <= limit:
            return text
        if rows == 0:
            return f"{_INTRODUCTION}\n\n**The evidence is too long to show here.** See the output of the run.\n"
        rows //= 2
