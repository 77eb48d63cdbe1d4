"""GitLab by its REST API: who we are, notes of a merge request, issues."""

from collections.abc import AsyncIterator
from typing import Final
from urllib.parse import quote

from reconciler.errors import ForgeError, UsageError
from reconciler.forge.incident import Issue
from reconciler.forge.rest import BOUNDS, Bounds, Json, Rest
from reconciler.forge.shapes import fact, maybe
from reconciler.forge.sticky import Note
from reconciler.forge.token import Token
from reconciler.ports import Clock

API: Final = "https://gitlab.com/api/v4"
NOTE_CHARACTERS: Final = 1_000_000


def gitlab(
    address: str, token: Token | None, *, clock: Clock, version: str, bounds: Bounds = BOUNDS
) -> Rest:
    """A client of GitLab's API. Job tokens cannot write notes, so the header is that of project tokens."""
    headers = {"Accept": "application/json", "User-Agent": f"kquota/{version}"}
    return Rest(
        address,
        headers=headers,
        clock=clock,
        token=token,
        authorization=("PRIVATE-TOKEN", ""),
        bounds=bounds,
    )


class GitLab:
    """One project, by its number or its path ``group/name``; a ``incident.Tracker``.

    Raises:
        UsageError: The project is empty.
    """

    def __init__(self, rest: Rest, project: str) -> None:
        if not project.strip("/"):
            raise UsageError("no project was named", hint="--project group/name, or CI_PROJECT_ID")
        self.rest = rest
        self.path = f"/projects/{quote(project, safe='')}"
        self._author = ""

    async def own_name(self) -> str:
        """The account that the token writes as: for project tokens a bot of the project."""
        if not self._author:
            self._author = fact(await self.rest.get("/user"), "username", str)
        return self._author

    async def check_merge_request(self, number: int, sha: str) -> None:
        """Nothing, if this merge request has this head.

        Raises:
            ForgeError: It has another.
        """
        one = await self.rest.get(f"{self.path}/merge_requests/{number}")
        if maybe(one, "sha") != sha:
            raise ForgeError(
                f"merge request {number} does not have the head {sha}, so nothing is posted there",
                hint="it has newer commits with a pipeline of their own",
            )

    async def open_issues(self) -> AsyncIterator[Issue]:
        """All open issues, oldest first."""
        query = {"state": "opened", "order_by": "created_at", "sort": "asc", "scope": "all"}
        async for one in self.rest.items(f"{self.path}/issues", query=query):
            yield _issue(one)

    async def open(self, title: str, body: str) -> Issue:
        """Open an issue."""
        made = {"title": title, "description": body}
        return _issue(await self.rest.send("POST", f"{self.path}/issues", made))

    async def change(self, issue: Issue, title: str, body: str) -> Issue:
        """Replace title and text."""
        path = f"{self.path}/issues/{issue.number}"
        return _issue(await self.rest.send("PUT", path, {"title": title, "description": body}))

    async def comment(self, issue: Issue, body: str) -> None:
        """Add a note."""
        await self.rest.send("POST", f"{self.path}/issues/{issue.number}/notes", {"body": body})

    async def close(self, issue: Issue) -> None:
        """Close it."""
        await self.rest.send("PUT", f"{self.path}/issues/{issue.number}", {"state_event": "close"})


class MergeRequestNotes:
    """The notes of one merge request; a ``sticky.Thread``."""

    def __init__(self, host: GitLab, number: int) -> None:
        self._host = host
        self._path = f"{host.path}/merge_requests/{number}/notes"

    async def notes(self) -> AsyncIterator[Note]:
        """All notes of people, oldest first; those that GitLab writes itself are left out."""
        query = {"sort": "asc", "order_by": "created_at"}
        async for one in self._host.rest.items(self._path, query=query):
            if one.get("system") is not True:
                yield _note(one)

    async def own_name(self) -> str:
        """Who we are."""
        return await self._host.own_name()

    async def create(self, body: str) -> Note:
        """Write a new note."""
        return _note(await self._host.rest.send("POST", self._path, {"body": body}))

    async def change(self, note: Note, body: str) -> Note:
        """Replace the text of one of our notes."""
        return _note(await self._host.rest.send("PUT", f"{self._path}/{note.id}", {"body": body}))

    async def delete(self, note: Note) -> None:
        """Take one of our notes away."""
        await self._host.rest.send("DELETE", f"{self._path}/{note.id}")


def _note(one: Json) -> Note:
    return Note(
        id=fact(one, "id", int), author=maybe(one, "author.username"), body=maybe(one, "body")
    )


def _issue(one: Json) -> Issue:
    return Issue(
        number=fact(one, "iid", int),
        author=maybe(one, "author.username"),
        title=maybe(one, "title"),
        body=maybe(one, "description"),
        url=maybe(one, "web_url"),
    )
