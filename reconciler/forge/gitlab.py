"""GitLab's REST API: own account, notes of a merge request, issues."""

from collections.abc import AsyncIterator
from typing import Final
from urllib.parse import quote

from reconciler.base.protocols import Clock
from reconciler.base.secret import Secret
from reconciler.errors import ForgeError, UsageError
from reconciler.forge.code_host import HostedRepository, HostFields, PullComments
from reconciler.forge.drift_issue import Issue
from reconciler.forge.rest_client import (
    BOUNDS,
    RestClient,
    RestLimits,
    optional_text,
    required_field,
)

API: Final = "https://gitlab.com/api/v4"
NOTE_CHARACTERS: Final = 1_000_000

FIELDS: Final = HostFields(
    number="iid",
    author="author.username",
    body="description",
    url="web_url",
    change="PUT",
    comments="notes",
    closed_issue={"state_event": "close"},
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


class GitLab(HostedRepository):
    """One project, by its number or its path ``group/name``; a ``drift_issue.Tracker``.

    Raises:
        UsageError: The project is empty.
    """

    fields = FIELDS

    def __init__(self, client: RestClient, project: str) -> None:
        if not project.strip("/"):
            raise UsageError("no project was named", hint="--project group/name, or CI_PROJECT_ID")
        super().__init__(client, f"/projects/{quote(project, safe='')}")
        self._author = ""

    async def own_name(self) -> str:
        """Return the account that the token writes as: for project tokens a bot of the project."""
        if not self._author:
            self._author = required_field(await self.client.get("/user"), "username", str)
        return self._author

    async def check_merge_request(self, number: int, sha: str) -> None:
        """Check that this merge request has this head.

        Raises:
            ForgeError: It has another head.
        """
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

    def comments_of(self, number: int) -> PullComments:
        """Return the notes of a merge request."""
        notes = f"{self.path}/merge_requests/{number}/notes"
        query = {"sort": "asc", "order_by": "created_at"}
        return PullComments(self, thread=notes, comments=notes, query=query)
