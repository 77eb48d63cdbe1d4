"""What both code hosts have in common: the token, one comment that is kept up to date, one issue for drift."""

import os

from reconciler.app.notices import TextReceiver
from reconciler.app.post.content import PostContent
from reconciler.base.secret import Secret
from reconciler.errors import ForgeError
from reconciler.forge.drift_issue import IssueResult, Tracker, update_issue
from reconciler.forge.sticky_comment import CommentResult, CommentThread, post
from reconciler.forge.token import forge_token
from reconciler.render.markdown.comment import MOST_ROWS


def token_of(variable: str) -> Secret:
    """The token from the environment.

    Raises:
        ForgeError: There is none, as in the pipeline of a fork.
    """
    text = os.environ.get(variable, "")
    if not text.strip():
        raise ForgeError(
            f"{variable} is not set", hint=f"the token comes from {variable} and nowhere else"
        )
    return forge_token(text)


async def update_comment(
    notices: TextReceiver, content: PostContent, thread: CommentThread, *, name: str, limit: int
) -> CommentResult:
    """Make the content the comment of its marker.

    Args:
        notices: Where it is said what became of the comment.
        content: What is posted.
        thread: The comments of one pull request or merge request.
        name: What the note about it begins with.
        limit: Most characters of a comment.

    Raises:
        ForgeError: The host refuses.
    """
    result = await post(
        thread,
        content.marker,
        content.body(limit, MOST_ROWS),
        method=content.request.method,
        is_quiet=content.is_quiet,
    )
    notices.note(f"{name} {result.deed}")
    return result


async def update_incident(
    notices: TextReceiver, content: PostContent, tracker: Tracker, *, limit: int
) -> IssueResult:
    """Open, update or close the issue about drift.

    Args:
        notices: Where it is said what became of the issue.
        content: What is posted; it has an incident.
        tracker: The issues of one repository.
        limit: Most characters of an issue.

    Raises:
        ForgeError: The host refuses.
    """
    incident = content.incident
    assert incident is not None  # noqa: S101 - the caller looked
    result = await update_issue(
        tracker,
        content.marker,
        title=incident.title,
        body=incident.body(limit),
        recovered=incident.recovered,
    )
    notices.note(f"issue about drift: {result.deed}")
    return result
