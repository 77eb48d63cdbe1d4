"""One comment per label that is kept up to date."""

from typing import Literal

from msgspec import Struct

from reconciler.errors import ForgeError
from reconciler.forge.github import Comment, PullComments
from reconciler.forge.marker import Marker

CommentAction = Literal["created", "updated", "unchanged"]


class CommentResult(Struct, frozen=True, kw_only=True):
    """The result for a comment."""

    action: CommentAction
    note: Comment


async def post(thread: PullComments, marker: Marker, body: str) -> CommentResult:
    """Create the comment with a marker, or change it in place.

    Args:
        marker: Identifies the comment; ``body`` begins with it.

    Raises:
        ValueError: ``body`` does not begin with the marker.
        ForgeError: The code host refuses a request.
    """
    if not marker.begins(body):
        raise ValueError("a comment begins with its marker, or it is never found again")
    own_comments = await own_notes(thread, marker)
    if not own_comments:
        return CommentResult(action="created", note=await _create(thread, marker, body))
    current, *duplicates = own_comments
    await _delete(thread, duplicates)  # two runs at once may both have begun a comment
    if current.body.replace("\r\n", "\n").rstrip("\n") == body.rstrip("\n"):
        return CommentResult(action="unchanged", note=current)
    return CommentResult(action="updated", note=await thread.change(current, body))


# By marker and author, never by marker alone: docs/adr/sticky-comments.md.
async def own_notes(thread: PullComments, marker: Marker) -> list[Comment]:
    """Return comments with this marker by the token's account, oldest first; copies by other authors are ignored."""
    marked = [note async for note in thread.notes() if marker.begins(note.body)]
    if not marked:
        return []
    own_name = await thread.own_name()
    return [note for note in marked if note.author.casefold() == own_name.casefold()]


async def _create(thread: PullComments, marker: Marker, body: str) -> Comment:
    """Create a comment, only one even if the host's response to the first attempt was lost."""
    try:
        return await thread.create(body)
    except ForgeError as error:
        if not error.unsure:
            raise
        landed = await own_notes(thread, marker)
        return landed[-1] if landed else await thread.create(body)


async def _delete(thread: PullComments, notes: list[Comment]) -> None:
    for note in notes:
        try:
            await thread.delete(note)
        except ForgeError as error:
            if error.status != 404:  # already deleted
                raise
