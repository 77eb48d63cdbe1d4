"""A command that failed before it had a result: what CI stores of it, and the comment shown instead of a plan.

Without it a comment about an earlier commit would stay and seem to be about the newest one.
"""

import re
from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct

from reconciler.base.escaping import html, prose
from reconciler.errors import Problem
from reconciler.render.markdown.comment import fitting, fork_banner, size

KIND: Final = "kquota-failure"

MAX_FORK_LINES: Final = 20
MAX_FORK_LINE: Final = 300
"""Maximum characters of a line from a fork: enough for an error with its place."""

SENTENCES: Final = {
    "plan": "Planning failed. The earlier plan in this comment is no longer valid.",
    "apply": "Nothing was applied, or the result is unknown.",
}
"""The sentence about a failure, by command."""

_MEANS: Final = {
    1: "",
    3: "A guard, a policy, the scope or a grant refuses (exit 3).",
    4: "The plan that was reviewed no longer fits (exit 4): plan again and have it reviewed again.",
    130: "It was interrupted.",
}


_PROBLEM: Final = re.compile(
    r"(?P<path>[^:\s][^:]*\.ya?ml):(?P<line>[0-9]{1,9}):(?P<column>[0-9]{1,9}): (?P<message>.+)"
)
"""A message as :class:`~reconciler.errors.Problem` writes it."""


class CommandFailure(
    Struct,
    frozen=True,
    kw_only=True,
    gc=False,
    forbid_unknown_fields=True,
    rename="camel",
    tag_field="kind",
    tag=KIND,
):
    """The document of a failed command, which the actions of a code host write with a few lines of shell."""

    command: Literal["plan", "apply"]
    exit_code: int
    format: Literal[1] = 1
    messages: tuple[str, ...]

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The problems in files among the messages, such as those of manifests that are not valid."""
        matches = filter(None, map(_PROBLEM.fullmatch, self.messages))
        return tuple(
            Problem(
                path=match["path"],
                line=int(match["line"]),
                column=int(match["column"]),
                message=match["message"],
            )
            for match in matches
        )


def failure_markdown(
    failure: CommandFailure, *, limit: int, title: str, marker: str, details: str, fork: str = ""
) -> str:
    """Return a failure as Markdown of at most ``limit`` characters; the text of a fork is shortened.

    Args:
        fork: The fork whose run wrote it; "" = the repository itself.
        title: Heading; escaped here.
        marker: Hidden line at its begin.
        details: A Markdown link to the run, or "".
    """
    sentence = f"**{SENTENCES[failure.command]}** {_MEANS.get(failure.exit_code, '')}".rstrip()
    above = [marker, f"### ⛔ {prose(title)}", "", *fork_banner(fork)]
    opening = [*above, sentence, "", "<pre>"]
    closing = ["</pre>", "", details]
    # An empty line would not end the block here, but what looks empty reads better as nothing.
    texts: Sequence[str] = failure.messages
    if fork:
        texts = [line[:MAX_FORK_LINE] for line in texts[:MAX_FORK_LINES]]
    messages = [line for line in map(html, texts) if line.strip()]
    lines = fitting(messages, limit - size([*opening, *closing]) - 20)
    if len(lines) < len(messages):
        lines.append("&#8230;")
    return "\n".join([*opening, *lines, *closing]).rstrip("\n") + "\n"
