"""An outcome as a comment on a pull request; or a command that failed before it had a result: what CI stores of it.

Without the comment about a failure, one about an earlier commit would stay and seem to be about the newest one.
"""

import re
from collections.abc import Sequence
from shlex import quote
from typing import Final, Literal

from msgspec import Struct

from reconciler.base.escaping import html, markdown, prose
from reconciler.errors import Problem
from reconciler.quota.entity import entity_text
from reconciler.quota.results.report import Outcome, PairOutcome
from reconciler.render.markdown.comment import (
    GITHUB_LIMIT,
    MOST_ROWS,
    CommentContext,
    Icon,
    cell,
    cluster_option,
    commit_text,
    fit_rows,
    fitting,
    footer,
    fork_banner,
    shorten,
    size,
    verdict_line,
)
from reconciler.render.rows import outcome_note
from reconciler.render.units import PER_BROKER, count, instant, quantities


def outcome_markdown(
    outcome: Outcome,
    *,
    limit: int = GITHUB_LIMIT,
    max_rows: int = MOST_ROWS,
    context: CommentContext | None = None,
) -> str:
    """Return an outcome as Markdown: what was applied, by whom, at which commit, and how to undo it.

    Args:
        max_rows: Maximum number of rows; changes that were not applied are selected first.
    """
    comment_context = context or CommentContext()
    icon, words = _outcome_verdict(outcome)
    head = verdict_line(
        icon, words, comment_context, cluster=outcome.origin.cluster, cluster_id=outcome.cluster_id
    )
    done_count = len(outcome.pairs) - len(outcome.troubled)
    result = (
        f"{done_count:,} of {count(len(outcome.pairs), 'change')} applied and shown by the brokers"
        if outcome.pairs
        else "No limit had to be written;"
    )
    head.append(f"**{result}** {_by(outcome, comment_context)}")
    if outcome.failure:
        head += ["", *shorten([prose(outcome.failure)], limit // 4)]
    if not outcome.recorded:
        head += [
            "",
            "The ownership records could not be written; the next plan may not show what was applied.",
        ]
    places = sorted(
        sorted(range(len(outcome.pairs)), key=lambda at: outcome.pairs[at].is_done)[:max_rows]
    )
    return fit_rows(
        head,
        ["| Client and key | Before | New | Result |", "|-|-:|-:|-|"],
        [_outcome_row(outcome.pairs[at]) for at in places],
        [*_undo(outcome, comment_context), *footer(comment_context, PER_BROKER)],
        total=len(outcome.pairs),
        remainder="The outcome document lists all of them.",
        limit=limit,
    )


def _outcome_verdict(outcome: Outcome) -> tuple[Icon, str]:
    if outcome.complete:
        return Icon.READY, "Applied" if outcome.pairs else "Nothing to apply"
    if outcome.count("APPLIED") or outcome.count("UNKNOWN"):
        return Icon.ATTENTION, "Applied in part"
    return Icon.REFUSED, "Not applied"


def _by(outcome: Outcome, context: CommentContext) -> str:
    author_text = f"by {markdown(outcome.origin.author)}" if outcome.origin.author else ""
    commit = commit_text(context, outcome.origin.commit)
    at = f"at {commit}" if commit else ""
    when = prose(instant(outcome.ended_at))
    return " ".join(part for part in (author_text, at, f"on {when}.") if part)


def _outcome_row(pair: PairOutcome) -> str:
    change = pair.change
    before, after = quantities(change.key, change.before, change.after)
    result = "applied" if pair.is_done else outcome_note(pair)
    return (
        f"| {cell(entity_text(change.entity), str(change.key))} | {prose(before)} | {prose(after)} |"
        f" {prose(result)} |"
    )


_UNDO_SAYS: Final = (
    "It restores the previous values for at most 24 hours, or until their documents change. To keep them, revert"
    " the commit."
)


def _undo(outcome: Outcome, context: CommentContext) -> list[str]:
    if not outcome.count("APPLIED") and not outcome.count("UNKNOWN"):
        return []
    option = cluster_option(outcome.origin.cluster)
    command = markdown(f"kquota rollback {quote(context.file)}{option or ''}")
    file = markdown(context.file)
    file_link = f"[{file}]({context.artifact_url})" if context.artifact_url else file
    extra = "" if option is not None else " with the options of the apply"
    return ["", f"**Undo**: {command}{extra}, beside the downloaded {file_link}. {_UNDO_SAYS}"]


FAILURE_KIND: Final = "kquota-failure"

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
    tag=FAILURE_KIND,
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
