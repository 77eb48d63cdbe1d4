"""One comment per label that is kept up to date: which one is ours, and what becomes of it. No host is known here."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Literal, Protocol

from reconciler.errors import ForgeError
from reconciler.forge.marker import Marker

Method = Literal["update", "recreate", "on-change", "never"]

Deed = Literal["created", "updated", "unchanged", "nothing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment:
    """A comment as a host knows it.

    Attributes:
        id: The host's number.
        author: Who wrote it, as the host names accounts.
        body: Its text.
        url: Where people see it; "" where the host does not say.
    """

    id: int
    author: str
    body: str
    url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommentResult:
    """What became of a comment; ``note`` is ``None`` if there is none."""

    deed: Deed
    note: Comment | None


class CommentThread(Protocol):
    """The comments of one pull request, merge request or issue."""

    def notes(self) -> AsyncIterator[Comment]:
        """All comments, oldest first."""
        ...

    async def own_name(self) -> str:
        """Who we are, as the host names accounts."""
        ...

    async def create(self, body: str) -> Comment:
        """Write a new comment."""
        ...

    async def change(self, note: Comment, body: str) -> Comment:
        """Replace the text of one of our comments."""
        ...

    async def delete(self, note: Comment) -> None:
        """Take one of our comments away."""
        ...


async def post(
    thread: CommentThread, marker: Marker, body: str, *, method: Method, is_quiet: bool
) -> CommentResult:
    """Make a text the comment that carries a marker.

    Args:
        thread: Where it belongs.
        marker: Which comment it is; ``body`` begins with it.
        body: The whole text.
        method: ``update`` changes the comment in place; ``recreate`` writes a new one at the end and takes the old one
            away; ``on-change`` updates, but begins none for a plan that has nothing to say; ``never`` does nothing.
        is_quiet: Whether there is nothing to say.

    Raises:
        ForgeError: The host refuses.
    """
    if not marker.begins(body):
        raise ValueError("a comment begins with its marker, or it is never found again")
    if method == "never":
        return CommentResult(deed="nothing", note=None)
    own_comments = await own_notes(thread, marker)
    if not own_comments:
        if method == "on-change" and is_quiet:
            return CommentResult(deed="nothing", note=None)
        return CommentResult(deed="created", note=await _created(thread, marker, body))
    if method == "recreate":
        created = await _created(thread, marker, body, known_ids={note.id for note in own_comments})
        await _delete(thread, own_comments)
        return CommentResult(deed="created", note=created)
    current, *duplicates = own_comments
    await _delete(thread, duplicates)  # two runs at once may both have begun a comment
    if current.body.replace("\r\n", "\n").rstrip("\n") == body.rstrip("\n"):
        return CommentResult(deed="unchanged", note=current)
    return CommentResult(deed="updated", note=await thread.change(current, body))


async def own_notes(thread: CommentThread, marker: Marker) -> list[Comment]:
    """Our comments with this marker, oldest first: by marker and own author, so that no copy is taken for ours."""
    marked = [note async for note in thread.notes() if marker.begins(note.body)]
    if not marked:
        return []
    own_name = await thread.own_name()
    return [note for note in marked if note.author.casefold() == own_name.casefold()]


async def _created(
    thread: CommentThread,
    marker: Marker,
    body: str,
    *,
    known_ids: frozenset[int] | set[int] = frozenset(),
) -> Comment:
    """A new comment, and only one even where the host's answer to the first try got lost."""
    try:
        return await thread.create(body)
    except ForgeError as error:
        if not error.unsure:
            raise
        landed = [
            comment for comment in await own_notes(thread, marker) if comment.id not in known_ids
        ]
        return landed[-1] if landed else await thread.create(body)


async def _delete(thread: CommentThread, notes: list[Comment]) -> None:
    for note in notes:
        try:
            await thread.delete(note)
        except ForgeError as error:
            if error.status != 404:  # already deleted
                raise
