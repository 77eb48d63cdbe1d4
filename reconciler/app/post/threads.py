"""Shared by both code hosts: the token, one comment that is updated, one issue for drift."""

import os

from reconciler.app.notices import TextReceiver
from reconciler.app.post.content import PostContent
from reconciler.base.secret import Secret
from reconciler.errors import ForgeError
from reconciler.forge.drift_issue import IssueResult, Tracker, update_issue
from reconciler.forge.rest_client import forge_token
from reconciler.forge.sticky_comment import CommentResult, CommentThread, post
from reconciler.render.markdown.comment import MOST_ROWS


def token_of(variable: str) -> Secret:
    """Return the token from the environment.

    Raises:
        ForgeError: It is not set, as in a CI job of a fork.
    """
    text = os.environ.get(variable, "")
    if not text.strip():
        raise ForgeError(
            f"{variable} is not set",
            hint=f"set {variable}; the token is read only from the environment",
        )
    return forge_token(text)


async def update_comment(
    notices: TextReceiver, content: PostContent, thread: CommentThread, *, name: str, limit: int
) -> CommentResult:
    """Create, update or recreate the comment with the content's marker.

    Args:
        name: Prefix of the note.
    """
    result = await post(
        thread,
        content.marker,
        content.body(limit, MOST_ROWS),
        method=content.request.method,
        is_quiet=content.is_quiet,
    )
    notices.note(f"{name} {result.action}")
    return result


async def update_incident(
    notices: TextReceiver, content: PostContent, tracker: Tracker, *, limit: int
) -> IssueResult:
    """Open, update or close the issue about drift; leave it if the report had no records to compare with."""
    incident = content.incident
    assert incident is not None  # noqa: S101 - checked by the caller
    if not incident.is_known:
        notices.warning(
            "the report had no ownership records to compare with, so the issue about drift is left as it is"
        )
        return IssueResult(action="nothing", issue=None)
    result = await update_issue(
        tracker,
        content.marker,
        title=incident.title,
        body=incident.body(limit),
        recovered=incident.recovered,
    )
    notices.note(f"issue about drift: {result.action}")
    return result
