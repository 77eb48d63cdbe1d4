"""One issue per label while there is drift: opened, updated, closed on recovery."""

from typing import Literal

from msgspec import Struct

from reconciler.errors import ForgeError
from reconciler.forge.github import GitHub, Issue
from reconciler.forge.marker import Marker, state_of

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
