"""GitHub's REST API: own account, comments, issues, and the pull request of a head."""

import re
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final
from urllib.parse import quote

from msgspec import Struct, field

from reconciler.base.protocols import Clock
from reconciler.base.secret import Secret
from reconciler.errors import ForgeError, UsageError
from reconciler.forge.rest_client import (
    BOUNDS,
    Json,
    RestClient,
    RestLimits,
    answered,
)

API: Final = "https://api.github.com"
API_VERSION: Final = "2022-11-28"
COMMENT_CHARACTERS: Final = 65_536
"""Of a comment or an issue; the API responds with 422 to more."""

WORKFLOW_ACCOUNT: Final = "github-actions[bot]"
"""Author of what is written with a workflow's token. That token may not query its own account."""

_REPOSITORY: Final = re.compile(r"[A-Za-z0-9._-]{1,100}/[A-Za-z0-9._-]{1,100}")
_SHA: Final = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")


def checked_repository(text: str) -> str:
    """Check ``owner/name``, of characters that need no escaping in an address.

    Raises:
        UsageError: The text is invalid.
    """
    if not _REPOSITORY.fullmatch(text) or any(part in {".", ".."} for part in text.split("/")):
        raise UsageError(f"{text!r} is not a repository", hint="such as octo-org/kafka-quotas")
    return text


def checked_sha(text: str) -> str:
    """Check a full commit id.

    Raises:
        UsageError: The text is not a full commit id.
    """
    if not _SHA.fullmatch(text):
        raise UsageError(f"{text!r} is not a full commit id")
    return text


def github(
    address: str, token: Secret | None, *, clock: Clock, version: str, bounds: RestLimits = BOUNDS
) -> RestClient:
    """Return a client of GitHub's API or of an Enterprise server's."""
    headers = {
        "Accept": "application/vnd.github+json",
        "User-Agent": f"kquota/{version}",
        "X-GitHub-Api-Version": API_VERSION,
    }
    return RestClient(address, headers=headers, clock=clock, token=token, bounds=bounds)


class PullRequestHead(Struct, frozen=True, kw_only=True):
    """The head of a pull request, from the event that started the run; never from an artifact.

    Raises:
        UsageError: A value is invalid.
    """

    repository: str  # `owner/name` of the repository with the head branch
    sha: str
    branch: str = ""  # the head branch; "" = unknown. With it, one request finds the pull request.

    def __post_init__(self) -> None:
        checked_repository(self.repository)
        checked_sha(self.sha)


class Account(Struct, frozen=True, kw_only=True):
    """An account; ``null`` in an answer if it was deleted."""

    login: str


class Post(Struct, frozen=True, kw_only=True):
    """A comment or an issue of an answer."""

    text: str | None = field(name="body", default=None)
    user: Account | None = None

    @property
    def author(self) -> str:
        """Its author; "" if the account was deleted."""
        return "" if self.user is None else self.user.login

    @property
    def body(self) -> str:
        """Its text."""
        return self.text or ""


class Comment(Post, frozen=True, kw_only=True):
    """A comment."""

    id: int
    url: str = field(name="html_url", default="")  # its web address; "" if unknown


class Issue(Post, frozen=True, kw_only=True):
    """An open issue."""

    number: int
    title: str
    pull_request: dict[str, Any] | None = None  # an issue that is a pull request has it


class HostRepository(Struct, frozen=True, kw_only=True):
    """A repository; ``null`` in an answer if a fork was deleted."""

    full_name: str


class _PullHead(Struct, frozen=True, kw_only=True):
    sha: str
    branch: str = field(name="ref", default="")
    repo: HostRepository | None = None


class _Pull(Struct, frozen=True, kw_only=True):
    number: int
    head: _PullHead
    merged_at: str | None = None
    merge_commit_sha: str | None = None

    def has(self, head: PullRequestHead) -> bool:
        repository = "" if self.head.repo is None else self.head.repo.full_name
        is_same = repository.casefold() == head.repository.casefold()
        return is_same and self.head.sha == head.sha


class GitHub:
    """One repository, with its issues.

    Args:
        repository: ``owner/name``.
        author: Author of kquota's comments; "" = query it, and use the workflow's account if the token may not.
    """

    def __init__(self, client: RestClient, repository: str, *, author: str = "") -> None:
        self.client = client
        self.path = f"/repos/{checked_repository(repository)}"
        self._author = author

    def owns(self, head: PullRequestHead) -> bool:
        """Whether the head is in this repository and not in a fork."""
        return self.path.casefold() == f"/repos/{head.repository}".casefold()

    async def own_name(self) -> str:
        """Return the account that the token writes as."""
        if not self._author:
            try:
                self._author = answered(await self.client.get("/user"), Account).login
            except ForgeError as error:
                # "Resource not accessible by integration": the token of an app, most often the workflow's own.
                if error.status != 403 or error.may_work_later:
                    raise
                self._author = WORKFLOW_ACCOUNT
        return self._author

    async def pull_of(self, head: PullRequestHead) -> int:
        """Return the number of the only open pull request with this head.

        The pull request is found by head repository and head commit of the event. An artifact must not choose it,
        because a fork may have written the artifact.

        Raises:
            ForgeError: There is none (it was closed or updated), or there are several.
        """
        query = {"state": "open", "sort": "updated", "direction": "desc"}
        if head.branch:
            query["head"] = f"{head.repository.split('/')[0]}:{head.branch}"
        items = self.client.items(f"{self.path}/pulls", query=query)
        pulls = [answered(item, _Pull) async for item in items]
        numbers = [pull.number for pull in pulls if pull.has(head)]
        if len(numbers) != 1:
            problem = (
                "no open pull request has" if not numbers else f"pull requests {numbers} all have"
            )
            raise ForgeError(
                f"{problem} the head {head.sha} of {head.repository}",
                hint="it was closed, or has newer commits with another run"
                if not numbers
                else "choose one with --pull",
            )
        return numbers[0]

    async def check_pull(self, number: int, head: PullRequestHead) -> None:
        """Check that this pull request has this head.

        Raises:
            ForgeError: It has another head.
        """
        pull = answered(await self.client.get(f"{self.path}/pulls/{number}"), _Pull)
        if not pull.has(head):
            raise ForgeError(
                f"pull request {number} does not have the head {head.sha} of {head.repository}, so nothing is posted there",
                hint="it has newer commits, or the run was given the number of another pull request",
            )

    async def pull_merged_as(self, commit: str) -> tuple[int, PullRequestHead]:
        """Return the pull request that a commit of the base branch merged, and its head.

        Raises:
            ForgeError: There is none, for example after a direct push.
        """
        path = f"{self.path}/commits/{checked_sha(commit)}/pulls"
        async for item in self.client.items(path):
            pull = answered(item, _Pull)
            if pull.merged_at and pull.merge_commit_sha == commit:
                head, own = pull.head, self.path.removeprefix("/repos/")
                # A fork may have been deleted; its commits still exist.
                repository = own if head.repo is None else head.repo.full_name
                return pull.number, PullRequestHead(
                    repository=repository, sha=head.sha, branch=head.branch
                )
        raise ForgeError(
            f"no pull request was merged as {commit}, so there is no reviewed plan",
            hint="after a direct push, plan, review the plan, and apply it with --expect-digest",
        )

    async def open_issues(self) -> AsyncIterator[Issue]:
        """All open issues, oldest first."""
        query = {"state": "open", "sort": "created", "direction": "asc"}
        async for item in self.client.items(f"{self.path}/issues", query=query):
            issue = answered(item, Issue)
            if issue.pull_request is None:
                yield issue

    async def open(self, title: str, body: str) -> Issue:
        """Open an issue."""
        content = {"title": title, "body": body}
        return answered(await self.client.send("POST", f"{self.path}/issues", content), Issue)

    async def change(self, issue: Issue, title: str, body: str) -> Issue:
        """Replace title and text."""
        return answered(await self._send_change(issue, {"title": title, "body": body}), Issue)

    async def comment(self, issue: Issue, body: str) -> None:
        """Add a comment."""
        await self.client.send(
            "POST", f"{self.path}/issues/{issue.number}/comments", {"body": body}
        )

    async def close(self, issue: Issue) -> None:
        """Close it as done."""
        await self._send_change(issue, {"state": "closed", "state_reason": "completed"})

    async def _send_change(self, issue: Issue, content: Mapping[str, Json]) -> Json:
        return await self.client.send("PATCH", f"{self.path}/issues/{issue.number}", content)

    def comments_of(self, number: int) -> "PullComments":
        """Return the comments of a pull request."""
        return PullComments(self, number)


class PullComments:
    """The comments of one pull request, which is an issue in this API."""

    def __init__(self, host: GitHub, number: int) -> None:
        self._host = host
        self._thread = f"{host.path}/issues/{number}/comments"
        self._comments = f"{host.path}/issues/comments"

    async def own_name(self) -> str:
        """Return the account of the token."""
        return await self._host.own_name()

    async def notes(self) -> AsyncIterator[Comment]:
        """Yield all comments, oldest first."""
        async for item in self._host.client.items(self._thread):
            yield answered(item, Comment)

    async def create(self, body: str) -> Comment:
        """Create a comment."""
        return answered(await self._host.client.send("POST", self._thread, {"body": body}), Comment)

    async def change(self, note: Comment, body: str) -> Comment:
        """Replace the text of a comment."""
        path = f"{self._comments}/{note.id}"
        return answered(await self._host.client.send("PATCH", path, {"body": body}), Comment)

    async def delete(self, note: Comment) -> None:
        """Delete a comment."""
        await self._host.client.send("DELETE", f"{self._comments}/{note.id}")


def workflow_name(text: str) -> str:
    """Check the file name of a workflow and quote it for an address.

    Raises:
        UsageError: The text is not a file name of a workflow.
    """
    if not text.endswith((".yml", ".yaml")) or "/" in text:
        raise UsageError(
            f"{text!r} is not the file name of a workflow", hint="such as quotas-plan.yml"
        )
    return quote(text, safe="")
