"""What GitHub and GitLab have in common: an API with a path for each repository; paths, methods and fields differ in their names."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from typing import ClassVar

from msgspec import Struct

from reconciler.forge.drift_issue import Issue
from reconciler.forge.rest_client import Json, RestClient, optional_text, required_field
from reconciler.forge.sticky_comment import Comment


class HostFields(Struct, frozen=True, kw_only=True):
    """Paths of fields in a host's JSON, and its words for the same requests."""

    number: str  # number of an issue, as its users see it
    author: str
    body: str  # text of an issue; that of a comment is `body` on every host
    url: str
    change: str  # method that changes some fields of an object
    comments: str  # path of the comments of an issue, below the issue
    closed_issue: Mapping[str, Json]  # fields that close an issue as done

    def comment(self, document: Json) -> Comment:
        """Return a comment."""
        return Comment(
            id=required_field(document, "id", int),
            author=optional_text(document, self.author),
            body=optional_text(document, "body"),
            url=optional_text(document, self.url),
        )

    def issue(self, document: Json) -> Issue:
        """Return an issue."""
        return Issue(
            number=required_field(document, self.number, int),
            author=optional_text(document, self.author),
            title=optional_text(document, "title"),
            body=optional_text(document, self.body),
            url=optional_text(document, self.url),
        )


class HostedRepository(ABC):
    """One repository of a host, with its issues: a ``drift_issue.Tracker`` but for their list."""

    fields: ClassVar[HostFields]

    def __init__(self, client: RestClient, path: str) -> None:
        self.client = client
        self.path = path

    @abstractmethod
    async def own_name(self) -> str:
        """Return the account of the token."""

    @abstractmethod
    def comments_of(self, number: int) -> "PullComments":
        """Return the comments of a pull request."""

    async def open(self, title: str, body: str) -> Issue:
        """Open an issue."""
        content = {"title": title, self.fields.body: body}
        return self.fields.issue(await self.client.send("POST", f"{self.path}/issues", content))

    async def change(self, issue: Issue, title: str, body: str) -> Issue:
        """Replace title and text."""
        return self.fields.issue(
            await self._send_change(issue, {"title": title, self.fields.body: body})
        )

    async def comment(self, issue: Issue, body: str) -> None:
        """Add a comment."""
        path = f"{self.path}/issues/{issue.number}/{self.fields.comments}"
        await self.client.send("POST", path, {"body": body})

    async def close(self, issue: Issue) -> None:
        """Close it as done."""
        await self._send_change(issue, self.fields.closed_issue)

    async def _send_change(self, issue: Issue, content: Mapping[str, Json]) -> Json:
        path = f"{self.path}/issues/{issue.number}"
        return await self.client.send(self.fields.change, path, content)


class PullComments:
    """The comments of one pull request; a ``sticky_comment.CommentThread``.

    Args:
        thread: Path of all of them.
        comments: Path below which one comment has its id.
        query: What lists the oldest first.
    """

    def __init__(
        self, host: HostedRepository, *, thread: str, comments: str, query: Mapping[str, str]
    ) -> None:
        self._host, self._thread, self._comments = host, thread, comments
        self._query = query

    async def own_name(self) -> str:
        """Return the account of the token."""
        return await self._host.own_name()

    async def notes(self) -> AsyncIterator[Comment]:
        """Yield all comments of users, oldest first; GitLab's system notes are skipped."""
        async for comment in self._host.client.items(self._thread, query=self._query):
            if comment.get("system") is not True:
                yield self._host.fields.comment(comment)

    async def create(self, body: str) -> Comment:
        """Create a comment."""
        comment = await self._host.client.send("POST", self._thread, {"body": body})
        return self._host.fields.comment(comment)

    async def change(self, note: Comment, body: str) -> Comment:
        """Replace the text of a comment."""
        path = f"{self._comments}/{note.id}"
        comment = await self._host.client.send(self._host.fields.change, path, {"body": body})
        return self._host.fields.comment(comment)

    async def delete(self, note: Comment) -> None:
        """Delete a comment."""
        await self._host.client.send("DELETE", f"{self._comments}/{note.id}")
