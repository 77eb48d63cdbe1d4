"""GitHub by its REST API: who we are, comments, issues, and the pull request that a head belongs to."""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from reconciler.base.protocols import Clock
from reconciler.base.secret import Secret
from reconciler.errors import ForgeError, UsageError
from reconciler.forge.drift_issue import Issue
from reconciler.forge.json_fields import optional_text, required_field
from reconciler.forge.rest_client import BOUNDS, Json, RestClient, RestLimits
from reconciler.forge.sticky_comment import Comment

API: Final = "https://api.github.com"
API_VERSION: Final = "2022-11-28"
COMMENT_CHARACTERS: Final = 65_536
"""Of a comment or an issue; the API answers 422 to more."""

WORKFLOW_ACCOUNT: Final = "github-actions[bot]"
"""Who writes with the token that a workflow gets. That token may not ask who it is."""

_REPOSITORY: Final = re.compile(r"[A-Za-z0-9._-]{1,100}/[A-Za-z0-9._-]{1,100}")
_SHA: Final = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")


def checked_repository(text: str) -> str:
    """``owner/name``, of characters that need no escaping in an address.

    Raises:
        UsageError: It is none.
    """
    if not _REPOSITORY.fullmatch(text) or any(part in {".", ".."} for part in text.split("/")):
        raise UsageError(f"{text!r} is no repository", hint="such as octo-org/kafka-quotas")
    return text


def checked_sha(text: str) -> str:
    """A whole commit id.

    Raises:
        UsageError: It is none.
    """
    if not _SHA.fullmatch(text):
        raise UsageError(f"{text!r} is no whole commit id")
    return text


def github(
    address: str,
    token: Secret | None,
    *,
    clock: Clock,
    version: str,
    bounds: RestLimits = BOUNDS,
) -> RestClient:
    """A client of GitHub's API or of an Enterprise server's."""
    headers = {
        "Accept": "application/vnd.github+json",
        "User-Agent": f"kquota/{version}",
        "X-GitHub-Api-Version": API_VERSION,
    }
    return RestClient(address, headers=headers, clock=clock, token=token, bounds=bounds)


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequestHead:
    """The head of a pull request, as the event that started the run names it; never as an artifact does.

    Attributes:
        repository: ``owner/name`` of the repository with the head branch.
        sha: Commit id of the head.
        branch: The head branch; "" = not known. It makes the look-up one request.

    Raises:
        UsageError: A value is none.
    """

    repository: str
    sha: str
    branch: str = ""

    def __post_init__(self) -> None:
        checked_repository(self.repository)
        checked_sha(self.sha)


class GitHub:
    """One repository.

    Args:
        client: The client.
        repository: ``owner/name``.
        author: Whose comments are ours; "" = ask, and take the workflow's account where the token may not.
    """

    def __init__(self, client: RestClient, repository: str, *, author: str = "") -> None:
        self.client = client
        self.path = f"/repos/{checked_repository(repository)}"
        self._author = author

    async def own_name(self) -> str:
        """The account that the token writes as."""
        if not self._author:
            try:
                self._author = required_field(await self.client.get("/user"), "login", str)
            except ForgeError as error:
                # "Resource not accessible by integration": the token of an app, the workflow's own most of all.
                if error.status != 403 or error.may_work_later:
                    raise
                self._author = WORKFLOW_ACCOUNT
        return self._author

    async def pull_of(self, head: PullRequestHead) -> int:
        """The one open pull request with this head.

        The pull request is found by head repository and head commit of the event. Nothing in an artifact may
        choose it: a fork wrote the artifact.

        Raises:
            ForgeError: There is none (it was closed, or has moved on), or there are several.
        """
        query = {"state": "open", "sort": "updated", "direction": "desc"}
        if head.branch:
            query["head"] = f"{head.repository.split('/')[0]}:{head.branch}"
        numbers = [
            required_field(pull, "number", int)
            async for pull in self.client.items(f"{self.path}/pulls", query=query)
            if _has_head(pull, head)
        ]
        if len(numbers) != 1:
            problem = (
                "no open pull request has" if not numbers else f"pull requests {numbers} all have"
            )
            raise ForgeError(
                f"{problem} the head {head.sha} of {head.repository}",
                hint="it was closed, or has newer commits with a run of their own"
                if not numbers
                else "say which with --pull",
            )
        return numbers[0]

    async def check_pull(self, number: int, head: PullRequestHead) -> None:
        """Nothing, if this pull request has this head.

        Raises:
            ForgeError: It has another.
        """
        pull = await self.client.get(f"{self.path}/pulls/{number}")
        if not _has_head(pull, head):
            raise ForgeError(
                f"pull request {number} does not have the head {head.sha} of {head.repository}, so nothing is posted there",
                hint="it has newer commits, or the run was given the number of another pull request",
            )

    async def pull_merged_as(self, commit: str) -> tuple[int, PullRequestHead]:
        """The pull request that a commit of the base branch merged, and its head.

        Raises:
            ForgeError: There is none, such as after a direct push.
        """
        path = f"{self.path}/commits/{checked_sha(commit)}/pulls"
        async for pull in self.client.items(path):
            if (
                optional_text(pull, "merged_at")
                and optional_text(pull, "merge_commit_sha") == commit
            ):
                # A fork may be gone by now; its commits are not.
                repository = optional_text(pull, "head.repo.full_name") or self.path.removeprefix(
                    "/repos/"
                )
                head = PullRequestHead(
                    repository=repository,
                    sha=required_field(pull, "head.sha", str),
                    branch=optional_text(pull, "head.ref"),
                )
                return required_field(pull, "number", int), head
        raise ForgeError(
            f"no pull request was merged as {commit}, so there is no review to go by",
            hint="after a direct push, plan, look at the plan, and apply with its digest (--expect-digest)",
        )

    # ---- issues --------------------------------------------------------------------------------

    async def open_issues(self) -> AsyncIterator[Issue]:
        """All open issues, oldest first."""
        query = {"state": "open", "sort": "created", "direction": "asc"}
        async for issue_json in self.client.items(f"{self.path}/issues", query=query):
            if "pull_request" not in issue_json:
                yield _issue(issue_json)

    async def open(self, title: str, body: str) -> Issue:
        """Open an issue."""
        return _issue(
            await self.client.send("POST", f"{self.path}/issues", {"title": title, "body": body})
        )

    async def change(self, issue: Issue, title: str, body: str) -> Issue:
        """Replace title and text."""
        path = f"{self.path}/issues/{issue.number}"
        return _issue(await self.client.send("PATCH", path, {"title": title, "body": body}))

    async def comment(self, issue: Issue, body: str) -> None:
        """Add a comment."""
        await self.client.send(
            "POST", f"{self.path}/issues/{issue.number}/comments", {"body": body}
        )

    async def close(self, issue: Issue) -> None:
        """Close it as done."""
        body: dict[str, Json] = {"state": "closed", "state_reason": "completed"}
        await self.client.send("PATCH", f"{self.path}/issues/{issue.number}", body)


class PullComments:
    """The comments of one pull request; a ``sticky.Thread``. For the API a pull request is an issue."""

    def __init__(self, host: GitHub, number: int) -> None:
        self._host = host
        self._number = number

    async def notes(self) -> AsyncIterator[Comment]:
        """All comments, oldest first."""
        async for comment in self._host.client.items(
            f"{self._host.path}/issues/{self._number}/comments"
        ):
            yield _note(comment)

    async def own_name(self) -> str:
        """Who we are."""
        return await self._host.own_name()

    async def create(self, body: str) -> Comment:
        """Write a new comment."""
        path = f"{self._host.path}/issues/{self._number}/comments"
        return _note(await self._host.client.send("POST", path, {"body": body}))

    async def change(self, note: Comment, body: str) -> Comment:
        """Replace the text of one of our comments."""
        path = f"{self._host.path}/issues/comments/{note.id}"
        return _note(await self._host.client.send("PATCH", path, {"body": body}))

    async def delete(self, note: Comment) -> None:
        """Take one of our comments away."""
        await self._host.client.send("DELETE", f"{self._host.path}/issues/comments/{note.id}")


def _has_head(pull: Json, head: PullRequestHead) -> bool:
    return (
        optional_text(pull, "head.sha") == head.sha
        and optional_text(pull, "head.repo.full_name").casefold() == head.repository.casefold()
    )


def _note(comment: Json) -> Comment:
    return Comment(
        id=required_field(comment, "id", int),
        author=optional_text(comment, "user.login"),
        body=optional_text(comment, "body"),
        url=optional_text(comment, "html_url"),
    )


def _issue(issue: Json) -> Issue:
    return Issue(
        number=required_field(issue, "number", int),
        author=optional_text(issue, "user.login"),
        title=optional_text(issue, "title"),
        body=optional_text(issue, "body"),
        url=optional_text(issue, "html_url"),
    )


def workflow_name(text: str) -> str:
    """The file name of a workflow, ready for an address.

    Raises:
        UsageError: It is none.
    """
    if not text.endswith((".yml", ".yaml")) or "/" in text:
        raise UsageError(f"{text!r} is no file name of a workflow", hint="such as quotas-plan.yml")
    return quote(text, safe="")
