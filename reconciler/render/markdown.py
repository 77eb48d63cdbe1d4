"""A plan as a comment on a pull request: a headline, counts, a table that folds when long, and a hard limit.

Every name goes through ``names.markdown`` or ``names.prose``; nothing in a name is markup here. What does not fit is
cut by whole rows, and the last line says how much is missing and where to find it.
"""

from collections.abc import Callable, Sequence
from typing import Final

from reconciler.quota.report import Outcome, Preview
from reconciler.render.impact_rows import (
    AFFECTED_SAYS,
    AFFECTED_TITLE,
    EXCLUSIVE_SAYS,
    EXCLUSIVE_TITLE,
    NEVER_SAYS,
    NEVER_TITLE,
    affected_rows,
    never_rows,
)
from reconciler.render.names import entity_text, html, markdown, prose
from reconciler.render.recorded import Recorded, recorded_markdown
from reconciler.render.rows import (
    Row,
    change_rows,
    finding_sections,
    headline,
    impact_lines,
    summary,
    trouble_rows,
)
from reconciler.render.units import PER_BROKER, count

GITHUB_LIMIT: Final = 65_536
"""Characters of a comment on GitHub; GitLab takes a million."""

MOST_AFFECTED: Final = 100
"""Clients follow from changes; more of them than this would push drift and orphans out of a comment."""

OPEN_ROWS: Final = 25
"""Tables with more rows are folded."""

Cut = Callable[[int], str]
"""``cut(missing rows)``: the sentence that stands in for rows that did not fit."""


def plan_markdown(
    preview: Preview,
    *,
    limit: int = GITHUB_LIMIT,
    title: str = "",
    marker: str = "",
    cut: Cut | None = None,
    recorded: Recorded | None = None,
) -> str:
    """A plan as Markdown of at most ``limit`` characters.

    Args:
        preview: The plan and what belongs to it.
        limit: Most characters of the whole text.
        title: Heading, such as the name of the cluster; escaped here.
        marker: A hidden line that finds the comment again; must be an HTML comment.
        cut: Says what became of rows that did not fit, such as a link to the full text.
        recorded: What recorded use says; ``None`` = nobody asked.
    """
    head = [marker] if marker else []
    head += [
        f"### {prose(title or 'Kafka quotas')}",
        "",
        f"**{prose(headline(preview))}**",
        "",
        prose(summary(preview)),
    ]
    head += _fitting(_alerts(preview), limit // 2)
    if recorded is not None:
        head += recorded_markdown(recorded, room=limit // 4)
    if preview.impact is not None:
        head += (
            ["", *(prose(line) for line in impact_lines(preview))] if impact_lines(preview) else []
        )
    tables = [
        ("", "", change_rows(preview, exclusive=False)),
        (EXCLUSIVE_TITLE, EXCLUSIVE_SAYS, change_rows(preview, exclusive=True)),
        (AFFECTED_TITLE, _some(preview), affected_rows(preview, most=MOST_AFFECTED)),
        (NEVER_TITLE, NEVER_SAYS, never_rows(preview)),
    ]
    tables += [
        (section.kind.title, section.kind.says, section.rows)
        for section in finding_sections(preview)
    ]
    foot = [f"<sub>{PER_BROKER} Digest <code>{html(preview.plan.digest)}</code>.</sub>"]
    return _fitted(head, tables, foot, limit=limit, cut=cut or _plain_cut)


def outcome_markdown(
    outcome: Outcome,
    *,
    limit: int = GITHUB_LIMIT,
    title: str = "",
    marker: str = "",
    cut: Cut | None = None,
) -> str:
    """An outcome as Markdown; only what did not go well is listed. The arguments are those of :func:`plan_markdown`."""
    done = sum(pair.is_done for pair in outcome.pairs)
    head = [marker] if marker else []
    head += [f"### {prose(title)}", ""] if title else []
    head += [f"**{done:,} of {count(len(outcome.pairs), 'change')} applied and visible**"]
    if outcome.failure:
        head += ["", prose(outcome.failure)]
    rows, _ = trouble_rows(outcome, most=len(outcome.pairs))
    return _fitted(head, [("", "", rows)], [], limit=limit, cut=cut or _plain_cut)


def _fitted(
    head: Sequence[str],
    tables: Sequence[tuple[str, str, Sequence[Row]]],
    foot: Sequence[str],
    *,
    limit: int,
    cut: Cut,
) -> str:
    """The text with as many rows as fit, in order."""
    total = sum(len(rows) for _, _, rows in tables)
    room = limit - _size(head) - _size(foot) - len(cut(total)) - 8
    lines: list[str] = []
    shown = 0
    for title, says, rows in tables:
        if not rows:
            continue
        opening, closing = _frame(title, says, rows)
        room -= _size(opening) + _size(closing)
        body: list[str] = []
        for row in rows:
            line = _row(row)
            if room < len(line) + 1:
                break
            room -= len(line) + 1
            body.append(line)
        if not body:
            break
        shown += len(body)
        lines += [*opening, *body, *closing]
        if len(body) < len(rows):
            break
    missing = [] if shown == total else ["", cut(total - shown)]
    return "\n".join([*head, *lines, *missing, "", *foot]).rstrip("\n") + "\n"


_AFTERWARDS: Final = frozenset({EXCLUSIVE_TITLE, AFFECTED_TITLE, NEVER_TITLE})
"""Tables that say what will be, as that of the changes does."""


def _some(preview: Preview) -> str:
    """What the table of clients says of itself; a comment has no room for thousands of them."""
    total = 0 if preview.impact is None else len(preview.impact.affected)
    return AFFECTED_SAYS + (
        f" The first {MOST_AFFECTED} of {total:,}." if total > MOST_AFFECTED else ""
    )


def _frame(title: str, says: str, rows: Sequence[Row]) -> tuple[list[str], list[str]]:
    heads = [
        "",
        "| | entity | key | live | | will be | effect | where | |",
        "|-|-|-|-:|-|-:|-|-|-|",
    ]
    if title and title not in _AFTERWARDS:
        heads[1] = "| | entity | key | live | | declared | | where | |"
    summary_line = f"{title} ({len(rows)}): {says}" if title else f"{count(len(rows), 'change')}"
    if title or len(rows) > OPEN_ROWS:
        return ["", f"<details><summary>{prose(summary_line)}</summary>", *heads], [
            "",
            "</details>",
        ]
    return heads, []


def _row(row: Row) -> str:
    effect = "; ".join(part for part in (row.meaning, row.why) if part)
    return (
        f"| {row.mark} | {markdown(row.entity)} | {markdown(row.key)} | {prose(row.before)} |"
        f" {'→' if row.is_written else ''} |"
        f" {prose(row.after)} | {prose(effect)} | {markdown(row.place) if row.place else ''} | {prose(row.note)} |"
    )


def _alerts(preview: Preview) -> list[str]:
    """What stands in the way, before everything else."""
    lines: list[str] = []
    if preview.plan.conflicts:
        lines += ["", f"**Conflicts ({len(preview.plan.conflicts)}): nothing can be applied**", ""]
        lines += [
            f"- {markdown(entity_text(one.entity))} {markdown(str(one.key))}: "
            + ", ".join(markdown(claim.place(one.key)) for claim in one.claims)
            for one in preview.plan.conflicts
        ]
    if preview.verdict.refused:
        lines += ["", f"**The broker would refuse ({len(preview.verdict.refused)})**", ""]
        lines += sorted(
            f"- {markdown(entity_text(subject))}: {prose(f'{one.name}: {one.message}')}"
            for subject, one in preview.verdict.refused.items()
        )
    if preview.violations:
        lines += [
            "",
            f"**Refused by guards ({len(preview.violations)}): nothing would be applied**",
            "",
        ]
        for one in preview.violations:
            subject = f"{markdown(entity_text(one.entity))}: " if one.entity is not None else ""
            place = f"{markdown(one.place)}: " if one.place else ""
            lines.append(f"- {place}{subject}{prose(one.message)} ({prose(one.allow_with)})")
    if preview.warnings or preview.advice:
        lines += ["", "**Warnings**", ""]
        lines += [f"- {prose(one)}" for one in preview.warnings]
        lines += [f"- {markdown(one.place)}: {prose(one.message)}" for one in preview.advice]
    return lines


def _fitting(lines: list[str], room: int) -> list[str]:
    """The lines that fit, and how many do not: thousands of violations must not push the text over its limit."""
    if _size(lines) <= room:
        return lines
    kept, left = list[str](), room - 100
    for line in lines:
        left -= len(line) + 1
        if left < 0:
            break
        kept.append(line)
    missing = sum(line.startswith("- ") for line in lines[len(kept) :])
    return [*kept, "", f"… and {count(missing, 'line')} more; the JSON plan has all of them."]


def _size(lines: Sequence[str]) -> int:
    return sum(len(line) + 1 for line in lines)


def _plain_cut(missing: int) -> str:
    return f"… and {count(missing, 'row')} more; the JSON plan has all of them."
