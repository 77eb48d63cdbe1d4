"""One comment and one issue per label: the comment is kept up to date, the issue is open while there is drift.

A hidden line, the marker, identifies them. It proves nothing alone: any user can copy it into another comment. So every
search for one also checks the author.
"""

from hashlib import sha256
from typing import Final, Literal
from urllib.parse import quote

from msgspec import Struct

from reconciler.errors import ForgeError, UsageError
from reconciler.forge.github import Comment, GitHub, Issue, PullComments

Kind = Literal["plan", "outcome", "drift"]

MAX_LABEL: Final = 100


class Marker(Struct, frozen=True, kw_only=True):
    """Identifies a comment of kquota: one per kind and label.

    Raises:
        UsageError: The label is too long.
    """

    kind: Kind
    label: str

    def __post_init__(self) -> None:
        if len(self.label) > MAX_LABEL:
            raise UsageError(f"the label has {len(self.label)} characters; {MAX_LABEL} are allowed")

    @property
    def line(self) -> str:
        """An HTML comment. Two hyphens would end it early in some renderers, so a label's hyphens are escaped."""
        return f"<!-- kquota:{self.kind}:{quote(self.label, safe='').replace('-', '%2D')} -->"

    def begins(self, body: str) -> bool:
        """Whether the marker is the whole first line of a text."""
        return body.replace("\r\n", "\n").startswith(f"{self.line}\n")


_STATE: Final = "<!-- kquota:state:"


def with_state(marker: Marker, facts: str) -> str:
    """Return the marker and, in the next line, a fingerprint of the facts in the text."""
    return f"{marker.line}\n{_STATE}{fingerprint(facts)} -->"


def state_of(body: str) -> str:
    """Return the fingerprint in a posted text; "" if it has none."""
    second = body.replace("\r\n", "\n").split("\n", 2)[1:2]
    line = second[0] if second else ""
    return line.removeprefix(_STATE).removesuffix(" -->") if line.startswith(_STATE) else ""


def fingerprint(facts: str) -> str:
    """Return a short hash of facts."""
    return sha256(facts.encode("utf-8", "surrogatepass")).hexdigest()[:32]


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


IssueAction = Literal["opened", "updated", "unchanged", "closed", "nothing"]


class IssueResult(Struct, frozen=True, kw_only=True):
    """The result for the issue; ``issue`` is ``None`` if there is none."""

    action: IssueAction
    issue: Issue | None


async def update_issue(
    tracker: GitHub, marker: Marker, *, title: str, body: str, recovered: str | None
) -> IssueResult:
    """Open, update or close the issue.

    A closed issue documents an incident that is over, so new drift opens a new one.

    Args:
        marker: Identifies the issue; ``body`` begins with it, followed by a fingerprint of its facts.
        recovered: Comment before it is closed, if there is no drift; ``None`` = there is drift.

    Raises:
        ValueError: ``body`` does not begin with the marker and a fingerprint.
        ForgeError: The code host refuses a request.
    """
    if not (marker.begins(body) and state_of(body)):
        raise ValueError(
            "the text of an issue begins with its marker and the fingerprint of its facts"
        )
    own_issues = await _find_own_issues(tracker, marker)
    if recovered is not None:
        for issue in own_issues:
            await tracker.comment(issue, recovered)
            await tracker.close(issue)
        return (
            IssueResult(action="closed", issue=own_issues[0])
            if own_issues
            else IssueResult(action="nothing", issue=None)
        )
    if not own_issues:
        return IssueResult(action="opened", issue=await _open(tracker, marker, title, body))
    current, *duplicates = own_issues
    for issue in duplicates:
        await tracker.close(issue)
    if state_of(current.body) == state_of(body) and current.title == title:
        return IssueResult(action="unchanged", issue=current)
    return IssueResult(action="updated", issue=await tracker.change(current, title, body))


async def _open(tracker: GitHub, marker: Marker, title: str, body: str) -> Issue:
    try:
        return await tracker.open(title, body)
    except ForgeError as error:
        if not error.unsure:
            raise
        landed = await _find_own_issues(tracker, marker)
        return landed[0] if landed else await tracker.open(title, body)


async def _find_own_issues(tracker: GitHub, marker: Marker) -> list[Issue]:
    """Return the account's open issues with this marker, oldest first."""
    marked = [issue async for issue in tracker.open_issues() if marker.begins(issue.body)]
    if not marked:
        return []
    own_name = await tracker.own_name()
    return sorted(
        (issue for issue in marked if issue.author.casefold() == own_name.casefold()),
        key=lambda issue: issue.number,
    )
