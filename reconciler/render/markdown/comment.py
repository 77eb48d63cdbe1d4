"""The common parts of comments about plans and outcomes: context, verdict line, a table that fits.

A comment fits on one screen: at most :data:`MOST_ROWS` rows of a table and :data:`MOST_REASONS` lines of a list, then
counts. Every name is escaped by ``escaping.markdown`` or ``escaping.prose``, so no name is markup here.
"""

import re
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Final

from msgspec import Struct

from reconciler.base.escaping import markdown, prose
from reconciler.render.units import count

GITHUB_LIMIT: Final = 65_536
"""Characters of a comment on GitHub; GitLab allows a million."""

MOST_ROWS: Final = 25
"""Maximum number of changes in a comment."""

MOST_REASONS: Final = 10
"""Maximum number of lines of each list of a comment."""

_COMMIT_DIGITS: Final = 12
_CLUSTER_NAME: Final = re.compile(r"[a-z0-9][a-z0-9.-]{0,252}")
"""A name of a cluster that needs no quotes in a shell; documents of other runs may contain anything."""


class Icon(Enum):
    """The first character of the verdict line; code hosts show these characters in colour."""

    READY = "✅"
    ATTENTION = "⚠️"
    REFUSED = "⛔"


class CommentContext(Struct, frozen=True, kw_only=True, gc=False):
    """The context of a comment that is not in a document."""

    label: str = ""  # the environment; "" = there is only one
    title: str = ""  # the subject of the comment, instead of the cluster's name
    marker: str = ""  # a hidden line that identifies the comment; an HTML comment
    commit: str = ""  # commit to show, instead of the one in the document
    run_url: str = ""  # address of the run; checked by the caller
    artifact_url: str = ""  # address of the uploaded page or outcome; checked by the caller
    fork: str = ""  # the fork whose run wrote the document; "" = the repository itself
    file: str = "outcome.json"  # name of the document that was read; used in commands


def verdict_line(
    icon: Icon, words: str, context: CommentContext, *, cluster: str, cluster_id: str
) -> list[str]:
    """Return the marker and the heading: an icon, the verdict, and the name of the cluster."""
    cluster_text = f"cluster {cluster_id}" if cluster_id else "no known cluster"
    title = context.title or f"Kafka quotas of {cluster or cluster_text}"
    if context.label and context.label != cluster and not context.title:
        title += f" ({context.label})"
    marker = [context.marker] if context.marker else []
    return [*marker, f"### {icon.value} {prose(f'{words}: {title}')}", ""]


def fork_banner(fork: str) -> list[str]:
    """Return the lines above what a run of a fork wrote; none for the repository itself."""
    if not fork:
        return []
    author = f"**Not verified: a run of the fork {prose(fork)} wrote the text below.**"
    return [f"{author} It may say anything; only its run and its files are evidence.", ""]


def cluster_option(cluster: str) -> str | None:
    """Return `` --cluster NAME`` for a command to copy; ``None`` if the name is unknown or needs quotes."""
    return f" --cluster {cluster}" if _CLUSTER_NAME.fullmatch(cluster) else None


def commit_text(context: CommentContext, commit: str) -> str:
    """Return `` commit `0123456789ab` ``; "" if it is unknown."""
    commit_digits = (context.commit or commit)[:_COMMIT_DIGITS]
    return f"commit {markdown(commit_digits)}" if commit_digits else ""


def footer(context: CommentContext, *parts: str) -> list[str]:
    """Return the last line: the run, and further parts; empty parts are omitted."""
    run = f"[run]({context.run_url})" if context.run_url else ""
    return ["", f"<sub>{' · '.join(part for part in (run, *parts) if part)}</sub>"]


def bullets(lines: Sequence[str]) -> list[str]:
    """Return a list of at most ``MOST_REASONS`` lines, and the number of omitted ones."""
    visible_lines = [f"- {line}" for line in lines[:MOST_REASONS]]
    missing = len(lines) - len(visible_lines)
    return [*visible_lines, f"- … and {missing:,} more"] if missing else visible_lines


def cell(entity: str, key: str) -> str:
    """Return the first cell of a row: narrow enough for a phone, because the key is below the entity."""
    return f"{markdown(entity)}<br>{markdown(key)}"


def size(lines: Iterable[str]) -> int:
    """Return the characters of lines, each with its line feed."""
    return sum(len(line) + 1 for line in lines)


def fitting(lines: Iterable[str], room: int) -> list[str]:
    """Return the first lines that fit together."""
    visible_lines: list[str] = []
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        visible_lines.append(line)
    return visible_lines


def shorten(lines: Sequence[str], room: int) -> list[str]:
    """Return the lines that fit: names may be long, and a text above the limit of a host cannot be posted."""
    visible_lines = fitting(lines, room)
    more = (
        ["- … and more; the plan document has all of it."]
        if len(visible_lines) < len(lines)
        else []
    )
    return [*visible_lines, *more]


def fit_rows(
    head: Sequence[str],
    table: Sequence[str],
    rows: Sequence[str],
    footer_lines: Sequence[str],
    *,
    total: int,
    remainder: str,
    limit: int,
) -> str:
    """Return the whole text, with as many rows as fit.

    Args:
        table: Its two lines of headings.
        total: Number of all rows, those not in ``rows`` included.
        remainder: Where the omitted rows are.
    """
    room = limit - size([*head, *table, *footer_lines]) - len(remainder) - 40
    visible_rows = fitting(rows, room)
    body = ["", *table, *visible_rows] if visible_rows else []
    if total > len(visible_rows):
        body += [
            "",
            f"… and {count(total - len(visible_rows), 'more change', 'more changes')}. {remainder}",
        ]
    return "\n".join([*head, *body, *footer_lines]).rstrip("\n") + "\n"
