"""GitLab's REST API: own account, notes of a merge request, issues."""

from collections.abc import AsyncIterator
from typing import Final
from urllib.parse import quote

from reconciler.base.protocols import Clock
from reconciler.base.secret import Secret
from reconciler.errors import ForgeError, UsageError
from reconciler.forge.code_host import HostFields, RepositoryPart
from reconciler.forge.drift_issue import Issue
from reconciler.forge.rest_client import (
    BOUNDS,
    RestClient,
    RestLimits,
    optional_text,
    required_field,
)
from reconciler.forge.sticky_comment import Comment

API: Final = "https://gitlab.com/api/v4"
NOTE_CHARACTERS: Final = 1_000_000

FIELDS: Final = HostFields(
    number="iid",
    author="author.username",
    body="description",
    url="web_url",
    open_states=frozenset({"opened", "locked"}),
)


def gitlab(
    address: str, token: Secret | None, *, clock: Clock, version: str, bounds: RestLimits = BOUNDS
) -> RestClient:
    """Return a client of GitLab's API. Job tokens cannot write notes, so the header is that of project tokens."""
    headers = {"Accept": "application/json", "User-Agent": f"kquota/{version}"}
    return RestClient(
        address,
        headers=headers,
        clock=clock,
        token=token,
        authorization=("PRIVATE-TOKEN", ""),
        bounds=bounds,
    )


class GitLab:
    """One project, by its number or its path ``group/name``; a ``drift_issue.Tracker``.

    Raises UsageError if the project is empty.
    """

    def __init__(self, client: RestClient, project: str) -> None:
        if not project.strip("/"):
            raise UsageError("no project was named", hint="--project group/name, or CI_PROJECT_ID")
        self.client = client
        self.path = f"/projects/{quote(project, safe='')}"
        self._author = ""

    async def own_name(self) -> str:
        """Return the account that the token writes as: for project tokens a bot of the project."""
        if not self._author:
            self._author = required_field(await self.client.get("/user"), "username", str)
        return self._author

    async def check_merge_request(self, number: int, sha: str) -> None:
        """Check that this merge request has this head. Raises ForgeError if it has another head."""
        merge_request = await self.client.get(f"{self.path}/merge_requests/{number}")
        if optional_text(merge_request, "sha") != sha:
            raise ForgeError(
                f"merge request {number} does not have the head {sha}, so nothing is posted there",
                hint="it has newer commits with another pipeline",
            )

    async def open_issues(self) -> AsyncIterator[Issue]:
        """All open issues, oldest first."""
        query = {"state": "opened", "order_by": "created_at", "sort": "asc", "scope": "all"}
        async for issue_json in self.client.items(f"{self.path}/issues", query=query):
            yield FIELDS.issue(issue_json)

    async def open(self, title: str, body: str) -> Issue:
        """Open an issue."""
        fields = {"title": title, "description": body}
        return FIELDS.issue(await self.client.send("POST", f"{self.path}/issues", fields))

    async def change(self, issue: Issue, title: str, body: str) -> Issue:
        """Replace title and text."""
        path = f"{self.path}/issues/{issue.number}"
        return FIELDS.issue(
            await self.client.send("PUT", path, {"title": title, "description": body})
        )

    async def comment(self, issue: Issue, body: str) -> None:
        """Add a note."""
        await self.client.send("POST", f"{self.path}/issues/{issue.number}/notes", {"body": body})

    async def close(self, issue: Issue) -> None:
        """Close it."""
        await self.client.send(
            "PUT", f"{self.path}/issues/{issue.number}", {"state_event": "close"}
        )


class MergeRequestNotes(RepositoryPart):
    """The notes of one merge request; a ``sticky_comment.CommentThread``."""

    def __init__(self, host: GitLab, number: int) -> None:
        super().__init__(host)
        self._path = f"{host.path}/merge_requests/{number}/notes"

    async def notes(self) -> AsyncIterator[Comment]:
        """Yield all notes of users, oldest first; GitLab's system notes are skipped."""
        query = {"sort": "asc", "order_by": "created_at"}
        async for note_json in self._host.client.items(self._path, query=query):
            if note_json.get("system") is not True:
                yield FIELDS.comment(note_json)

    async def create(self, body: str) -> Comment:
        """Create a note."""
        return FIELDS.comment(await self._host.client.send("POST", self._path, {"body": body}))

    async def change(self, note: Comment, body: str) -> Comment:
        """Replace the text of a note."""
        return FIELDS.comment(
            await self._host.client.send("PUT", f"{self._path}/{note.id}", {"body": body})
        )

    async def delete(self, note: Comment) -> None:
        """Delete a note."""
        await self._host.client.send("DELETE", f"{self._path}/{note.id}")
