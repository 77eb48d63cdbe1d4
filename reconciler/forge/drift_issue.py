"""One issue per label while there is drift: opened, kept up to date, closed on recovery. No host is known here."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Literal, Protocol

from reconciler.errors import ForgeError
from reconciler.forge.marker import Marker, state_of

Deed = Literal["opened", "updated", "unchanged", "closed", "nothing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue:
    """An open issue as a host knows it.

    Attributes:
        number: What people call it.
        author: Who wrote it.
        title: Its title.
        body: Its text.
        url: Where people see it.
    """

    number: int
    author: str
    title: str
    body: str
    url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class IssueResult:
    """What became of the issue; ``issue`` is ``None`` if there is none."""

    deed: Deed
    issue: Issue | None


class Tracker(Protocol):
    """The issues of one repository."""

    def open_issues(self) -> AsyncIterator[Issue]:
        """All open issues, oldest first; no pull requests."""
        ...

    async def own_name(self) -> str:
        """Who we are, as the host names accounts."""
        ...

    async def open(self, title: str, body: str) -> Issue:
        """Open an issue."""
        ...

    async def change(self, issue: Issue, title: str, body: str) -> Issue:
        """Replace title and text."""
        ...

    async def comment(self, issue: Issue, body: str) -> None:
        """Add a comment."""
        ...

    async def close(self, issue: Issue) -> None:
        """Close it as done."""
        ...


async def update_issue(
    tracker: Tracker, marker: Marker, *, title: str, body: str, recovered: str | None
) -> IssueResult:
    """Make the issue say what is the case.

    A closed issue is the story of an incident that is over, so new drift opens a new one.

    Args:
        tracker: Where issues are.
        marker: Which issue it is; ``body`` begins with it and carries a fingerprint of its facts.
        title: Its title.
        body: The whole text.
        recovered: Where there is no drift: what is said before it is closed. ``None`` = there is drift.

    Raises:
        ForgeError: The host refuses.
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
            IssueResult(deed="closed", issue=own_issues[0])
            if own_issues
            else IssueResult(deed="nothing", issue=None)
        )
    if not own_issues:
        return IssueResult(deed="opened", issue=await _opened(tracker, marker, title, body))
    current, *duplicates = own_issues
    for issue in duplicates:
        await tracker.close(issue)
    if state_of(current.body) == state_of(body) and current.title == title:
        return IssueResult(deed="unchanged", issue=current)
    return IssueResult(deed="updated", issue=await tracker.change(current, title, body))


async def _opened(tracker: Tracker, marker: Marker, title: str, body: str) -> Issue:
    try:
        return await tracker.open(title, body)
    except ForgeError as error:
        if not error.unsure:
            raise
        landed = await _find_own_issues(tracker, marker)
        return landed[0] if landed else await tracker.open(title, body)


async def _find_own_issues(tracker: Tracker, marker: Marker) -> list[Issue]:
    """Our open issues with this marker, oldest first."""
    marked = [issue async for issue in tracker.open_issues() if marker.begins(issue.body)]
    if not marked:
        return []
    own_name = await tracker.own_name()
    return sorted(
        (issue for issue in marked if issue.author.casefold() == own_name.casefold()),
        key=lambda issue: issue.number,
    )
