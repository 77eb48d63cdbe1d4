"""GitHub by its REST API: who we are, comments, issues, and the pull request that a head belongs to."""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from reconciler.errors import ForgeError, UsageError
from reconciler.forge.incident import Issue
from reconciler.forge.rest import BOUNDS, Bounds, Json, Rest
from reconciler.forge.shapes import fact, maybe
from reconciler.forge.sticky import Note
from reconciler.forge.token import Token
from reconciler.ports import Clock

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
    address: str, token: Token | None, *, clock: Clock, version: str, bounds: Bounds = BOUNDS
) -> Rest:
    """A client of GitHub's API or of an Enterprise server's."""
    headers = {
        "Accept": "application/vnd.github+json",
        "User-Agent": f"kquota/{version}",
        "X-GitHub-Api-Version": API_VERSION,
    }
    return Rest(address, headers=headers, clock=clock, token=token, bounds=bounds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
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
        rest: The client.
        repository: ``owner/name``.
        author: Whose comments are ours; "" = ask, and take the workflow's account where the token may not.
    """

    def __init__(self, rest: Rest, repository: str, *, author: str = "") -> None:
        self.rest = rest
        self.path = f"/repos/{checked_repository(repository)}"
        self._author = author

    async def own_name(self) -> str:
        """The account that the token writes as."""
        if not self._author:
            try:
                self._author = fact(await self.rest.get("/user"), "login", str)
            except ForgeError as error:
                # "Resource not accessible by integration": the token of an app, the workflow's own most of all.
                if error.status != 403 or error.may_work_later:
                    raise
                self._author = WORKFLOW_ACCOUNT
        return self._author

    async def pull_of(self, head: Head) -> int:
        """The one open pull request with this head.

        Raises:
            ForgeError: There is none (it was closed, or has moved on), or there are several.
        """
        query = {"state": "open", "sort": "updated", "direction": "desc"}
        if head.branch:
            query["head"] = f"{head.repository.split('/')[0]}:{head.branch}"
        found = [
            fact(one, "number", int)
            async for one in self.rest.items(f"{self.path}/pulls", query=query)
            if _has_head(one, head)
        ]
        if len(found) != 1:
            what = "no open pull request has" if not found else f"pull requests {found} all have"
            raise ForgeError(
                f"{what} the head {head.sha} of {head.repository}",
                hint="it was closed, or has newer commits with a run of their own"
                if not found
                else "say which with --pull",
            )
        return found[0]

    async def check_pull(self, number: int, head: Head) -> None:
        """Nothing, if this pull request has this head.

        Raises:
            ForgeError: It has another.
        """
        one = await self.rest.get(f"{self.path}/pulls/{number}")
        if not _has_head(one, head):
            raise ForgeError(
                f"pull request {number} does not have the head {head.sha} of {head.repository}, so nothing is posted there",
                hint="it has newer commits, or the run was told another pull request than its own",
            )

    async def pull_merged_as(self, commit: str) -> tuple[int, Head]:
        """The pull request that a commit of the base branch merged, and its head.

        Raises:
            ForgeError: There is none, such as after a direct push.
        """
        path = f"{self.path}/commits/{checked_sha(commit)}/pulls"
        async for one in self.rest.items(path):
            if maybe(one, "merged_at") and maybe(one, "merge_commit_sha") == commit:
                # A fork may be gone by now; its commits are not.
                repository = maybe(one, "head.repo.full_name") or self.path.removeprefix("/repos/")
                head = Head(
                    repository=repository,
                    sha=fact(one, "head.sha", str),
                    branch=maybe(one, "head.ref"),
                )
                return fact(one, "number", int), head
        raise ForgeError(
            f"no pull request was merged as {commit}, so there is no review to go by",
            hint="after a direct push, plan, look at the plan, and apply with its digest (--expect-digest)",
        )

    # ---- issues --------------------------------------------------------------------------------

    async def open_issues(self) -> AsyncIterator[Issue]:
        """All open issues, oldest first."""
        query = {"state": "open", "sort": "created", "direction": "asc"}
        async for one in self.rest.items(f"{self.path}/issues", query=query):
            if "pull_request" not in one:
                yield _issue(one)

    async def open(self, title: str, body: str) -> Issue:
        """Open an issue."""
        return _issue(
            await self.rest.send("POST", f"{self.path}/issues", {"title": title, "body": body})
        )

    async def change(self, issue: Issue, title: str, body: str) -> Issue:
        """Replace title and text."""
        path = f"{self.path}/issues/{issue.number}"
        return _issue(await self.rest.send("PATCH", path, {"title": title, "body": body}))

    async def comment(self, issue: Issue, body: str) -> None:
        """Add a comment."""
        await self.rest.send("POST", f"{self.path}/issues/{issue.number}/comments", {"body": body})

    async def close(self, issue: Issue) -> None:
        """Close it as done."""
        body: dict[str, Json] = {"state": "closed", "state_reason": "completed"}
        await self.rest.send("PATCH", f"{self.path}/issues/{issue.number}", body)


class PullComments:
    """The comments of one pull request; a ``sticky.Thread``. For the API a pull request is an issue."""

    def __init__(self, host: GitHub, number: int) -> None:
        self._host = host
        self._number = number

    async def notes(self) -> AsyncIterator[Note]:
        """All comments, oldest first."""
        async for one in self._host.rest.items(f"{self._host.path}/issues/{self._number}/comments"):
            yield _note(one)

    async def own_name(self) -> str:
        """Who we are."""
        return await self._host.own_name()

    async def create(self, body: str) -> Note:
        """Write a new comment."""
        path = f"{self._host.path}/issues/{self._number}/comments"
        return _note(await self._host.rest.send("POST", path, {"body": body}))

    async def change(self, note: Note, body: str) -> Note:
        """Replace the text of one of our comments."""
        path = f"{self._host.path}/issues/comments/{note.id}"
        return _note(await self._host.rest.send("PATCH", path, {"body": body}))

    async def delete(self, note: Note) -> None:
        """Take one of our comments away."""
        await self._host.rest.send("DELETE", f"{self._host.path}/issues/comments/{note.id}")


def _has_head(pull: Json, head: Head) -> bool:
    return (
        maybe(pull, "head.sha") == head.sha
        and maybe(pull, "head.repo.full_name").casefold() == head.repository.casefold()
    )


def _note(one: Json) -> Note:
    return Note(
        id=fact(one, "id", int),
        author=maybe(one, "user.login"),
        body=maybe(one, "body"),
        url=maybe(one, "html_url"),
    )


def _issue(one: Json) -> Issue:
    return Issue(
        number=fact(one, "number", int),
        author=maybe(one, "user.login"),
        title=maybe(one, "title"),
        body=maybe(one, "body"),
        url=maybe(one, "html_url"),
    )


def workflow_name(text: str) -> str:
    """The file name of a workflow, ready for an address.

    Raises:
        UsageError: It is none.
    """
    if not text.endswith((".yml", ".yaml")) or "/" in text:
        raise UsageError(f"{text!r} is no file name of a workflow", hint="such as quotas-plan.yml")
    return quote(text, safe="")
