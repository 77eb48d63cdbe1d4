"""A plan as a comment on a pull request: a verdict, at most 25 changes, and counts.

It shows the effect of the pull request and not the quotas of others: findings outside of the changes are counted,
never listed. The HTML page has them, with exact numbers.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from reconciler import DOCUMENTATION
from reconciler.base.escaping import markdown, prose
from reconciler.quota.entity import entity_text
from reconciler.quota.planner.effects import Direction, Effect
from reconciler.quota.planner.impact import own_entity
from reconciler.quota.planner.plan import Finding, QuotaChange
from reconciler.quota.policy import Cause
from reconciler.quota.results.report import Preview
from reconciler.render.budget_rows import BUDGETS
from reconciler.render.cause_text import (
    REMOVAL_BY_DOCUMENT,
    REMOVAL_COMMAND,
    SECTIONS,
    counts,
    sections,
)
from reconciler.render.impact_rows import unmatched_lines
from reconciler.render.markdown.comment import (
    GITHUB_LIMIT,
    MOST_REASONS,
    MOST_ROWS,
    CommentContext,
    Icon,
    bullets,
    cell,
    cluster_option,
    commit_text,
    fit_rows,
    fitting,
    footer,
    fork_banner,
    shorten,
    verdict_line,
)
from reconciler.render.markdown.recorded_use import recorded_markdown
from reconciler.render.plan_summary import record_words
from reconciler.render.recorded_use import RecordedUse
from reconciler.render.rows import FLAGGED, PAGE_ROWS, by_how_much, selected_changes
from reconciler.render.table import markdown_heads, markdown_rows
from reconciler.render.units import (
    PER_BROKER,
    age,
    count,
    named_clients,
    quantities,
    quantity,
)

_FLAG_SENTENCES: Final[Mapping[Cause, str]] = {
    Cause.TAKEOVER: "values without an ownership record are overwritten",
    Cause.SPEC_OVER_DRIFT: "values that were changed outside kquota are overwritten",
    Cause.DRIFT: "values that were changed outside kquota are written back",
    Cause.OVERRIDE: "values of an override are written",
    Cause.TEMPORARY: "values of documents with an end are written until then",
    Cause.ENDED: "a temporary limit ends, and the declared values are written",
}
"""What a reviewer has to notice about a change besides its values."""

_GUARDS: Final = f"{DOCUMENTATION}/policy.md"

_CLIENTS_ROOM: Final = 3_000
"""Maximum characters of the names of clients with a different limit; Kafka's names may have 32,767 bytes."""

_RECORDED_ROOM: Final = 6_000
"""Maximum characters about recorded use."""


def plan_markdown(
    preview: Preview,
    *,
    limit: int = GITHUB_LIMIT,
    max_rows: int | None = MOST_ROWS,
    context: CommentContext | None = None,
    recorded: RecordedUse | None = None,
) -> str:
    """Return a plan as Markdown of at most ``limit`` characters, unless its first lines alone are longer.

    Args:
        max_rows: Maximum number of rows of the table of changes; ``None`` = all.
        recorded: The effect by recorded use; ``None`` = not requested.
    """
    comment_context = context or CommentContext()
    is_verified = not comment_context.fork
    refusals, attention = _refusals(preview, recorded), _attention(preview, recorded)
    icon, words = _verdict(
        preview, refusals=bool(refusals), attention=bool(attention), is_verified=is_verified
    )
    head = verdict_line(
        icon,
        words,
        comment_context,
        cluster=preview.origin.cluster,
        cluster_id=preview.plan.cluster_id,
    )
    head += fork_banner(comment_context.fork)
    head.append(prose(_summary(preview, is_verified=is_verified)))
    refused = f"Refused** ([who can allow it]({_GUARDS}))" if preview.violations else "Refused**"
    for title, lines in ((refused, refusals), ("Needs attention**", attention)):
        if lines:
            head += ["", f"**{title}", "", *shorten(bullets(lines), limit // 4)]
    changes = selected_changes(preview, max_rows=max_rows)
    used = (
        []
        if recorded is None
        else recorded_markdown(recorded, room=min(limit // 4, _RECORDED_ROOM))
    )
    further = _further(preview, is_verified=is_verified, is_recorded=recorded is not None)
    used += _budgets(preview, room=limit // 8)
    footer_lines = [*used, "", *_separate(further)]
    footer_lines += footer(
        comment_context,
        f"[HTML page]({comment_context.artifact_url})" if comment_context.artifact_url else "",
        commit_text(comment_context, preview.origin.commit),
        f"digest {markdown(preview.digest)}",
        f"made with {markdown(' '.join(preview.selection))}" if preview.selection else "",
        PER_BROKER,
    )
    total = len(preview.plan.changes)
    on_page = comment_context.artifact_url and total <= PAGE_ROWS
    return fit_rows(
        head,
        ["| Client and key | Now | New | Effect |", "|-|-:|-:|-|"],
        [_change_row(change, effect) for change, effect in changes],
        footer_lines,
        total=total,
        remainder=f"The {'HTML page' if on_page else 'plan document'} lists all of them.",
        limit=limit,
    )


def _budgets(preview: Preview, *, room: int) -> list[str]:
    """Return the table of budgets in at most ``room`` characters, exceeded ones first; empty if none is configured."""
    if not preview.budgets:
        return []
    section = BUDGETS.of(sorted(preview.budgets, key=lambda use: not use.is_exceeded))
    rows = fitting(markdown_rows(section), room)
    lines = ["", f"**{section.title}**: {section.notes[0]}", "", *markdown_heads(section), *rows]
    if missing := len(section.rows) - len(rows):
        lines += ["", f"… and {count(missing, 'budget')} more; the JSON plan has them."]
    return lines


# ---- the verdict and its reasons -----------------------------------------------------------------


def _verdict(
    preview: Preview, *, refusals: bool, attention: bool, is_verified: bool
) -> tuple[Icon, str]:
    if refusals:
        return Icon.REFUSED, "Refused"
    if not is_verified:
        return Icon.ATTENTION, "Not verified"
    if attention:
        return Icon.ATTENTION, "Needs attention"
    return Icon.READY, "Ready" if preview.plan.changes or preview.plan.pending else "Nothing to do"


def _summary(preview: Preview, *, is_verified: bool) -> str:
    numbers, delayed = counts(preview), len(preview.plan.delayed)
    written = [
        f"{numbers[name]:,} to {name}" for name in ("create", "update", "remove") if numbers[name]
    ]
    parts = [
        f"{', '.join(written)} on {count(numbers['entities'], 'entity', 'entities')}"
        if written
        else "No changes",
        *([f"{delayed:,} under temporary limits"] if delayed else ()),
        *record_words(preview.plan),
        f"{count(numbers['inSync'], 'declared limit')} in sync",
        f"policy {preview.policy}. ",
    ]
    return "; ".join(parts) + (
        _validation(preview) if is_verified else "No broker is known to have validated it."
    )


def _validation(preview: Preview) -> str:
    verdict = preview.verdict
    reason = f" ({verdict.reason})" if verdict.reason else ""
    if verdict.source == "none":
        return f"Not validated by a broker{reason}."
    if verdict.source != "broker":
        return f"Validated by the rules of the {verdict.source}, not by the broker{reason}."
    return "Validated by the broker" + (
        f", which refuses {len(verdict.rejections):,}." if verdict.rejections else "."
    )


def _refusals(preview: Preview, recorded: RecordedUse | None) -> list[str]:
    """Return what prevents the plan from being applied, one line each."""
    lines = [
        f"{markdown(entity_text(conflict.entity))} {markdown(str(conflict.key))} is declared more than once: "
        + ", ".join(markdown(claim.place(conflict.key)) for claim in conflict.claims)
        for conflict in preview.plan.conflicts
    ]
    lines += sorted(
        f"The broker refuses {markdown(entity_text(subject))}: {prose(f'{rejected.name}: {rejected.message}')}"
        for subject, rejected in preview.verdict.rejections.items()
    )
    for violation in preview.violations:
        subject = "" if violation.entity is None else f"{markdown(entity_text(violation.entity))}: "
        place = f"{markdown(violation.place)}: " if violation.place else ""
        setting = violation.setting or violation.allow_with
        lines.append(f"{place}{subject}{prose(f'{violation.message} (allowed by {setting})')}")
    if recorded is not None and recorded.refusals:
        lines.append(f"{count(len(recorded.refusals), 'figure')} of recorded use, listed below")
    return lines


def _attention(preview: Preview, recorded: RecordedUse | None) -> list[str]:
    """Return what a reviewer has to check before a merge, one line each."""
    touched = preview.touched_documents
    plan, lines = preview.plan, [prose(warning) for warning in preview.warnings]
    if not plan.cluster_id:
        lines.append("No cluster was contacted; this shows only the documents.")
    elif plan.changes and preview.verdict.source == "none":
        lines.append("No broker and no rules of a broker validated the changes.")
    if preview.snapshot_at is not None:
        old = age(preview.created_at - preview.snapshot_at)
        lines.append(f"Computed from a snapshot that is {old} old, not from the cluster.")
    lines += _left_in_kafka(sections(plan)["newOrphans"])
    lines += map(_delayed_line, plan.delayed)
    flags = Counter(change.cause for change in plan.changes if change.cause in _FLAG_SENTENCES)
    lines += [
        f"{count(amount, 'change')}: {_FLAG_SENTENCES[cause]}" for cause, amount in flags.items()
    ]
    impact = preview.impact
    if impact is not None:
        freed = impact.count(Direction.NEWLY_UNLIMITED)
        lines += [f"{count(freed, 'change')}: newly unlimited"] if freed else []
        lines += [
            f"Removes the last {key} of the cluster, so brokers drop its metrics per client."
            for key in impact.silent
        ]
        hidden = len(impact.new_shadows)
        lines += [f"{count(hidden, 'limit')} can never apply after this plan."] if hidden else []
        lines += map(prose, unmatched_lines(impact))
    lines += [
        f"{markdown(warning.place)}: {prose(warning.message)}"
        for warning in preview.open_advice
        if warning.claim.document in touched
    ]
    if recorded is not None and any(row.mark for row in recorded.rows):
        lines.append("Recorded use, see below.")
    return lines


def _delayed_line(change: QuotaChange) -> str:
    """Return what is declared under a temporary limit: it is approved with the changes."""
    before, after = quantities(change.key, change.before, change.after)
    return (
        f"Under a temporary limit: {markdown(entity_text(change.entity))} {markdown(str(change.key))} from {before} to {after}"
        + (f" {prose(change.note)}" if change.note else "")
    )


def _left_in_kafka(findings: Sequence[Finding]) -> list[str]:
    """Return one line about the limits that stay although their documents are deleted; empty without any."""
    if not findings:
        return []
    documents = dict.fromkeys(finding.owner.document for finding in findings if finding.owner)
    deleted = (
        f"the document {markdown(next(iter(documents)))}"
        if len(documents) == 1
        else count(len(documents), "document")
    )
    limits = [
        f"{quantity(finding.key, finding.live)} ({markdown(entity_text(finding.entity))} {markdown(str(finding.key))})"
        for finding in findings[:MOST_REASONS]
    ]
    unlisted = len(findings) - len(limits)
    limits += [f"{unlisted:,} more"] if unlisted else []
    stay = (
        "its limit of {} stays in Kafka" if len(findings) == 1 else "limits that stay in Kafka: {}"
    )
    limits_text = stay.format(", ".join(fitting(limits, _CLIENTS_ROOM)))
    ways = f"{prose(REMOVAL_BY_DOCUMENT)}; or run `{REMOVAL_COMMAND}`"
    return [f"This change deletes {deleted}; {limits_text}. To remove such a limit, {ways}."]


# ---- the table -----------------------------------------------------------------------------------


def _change_row(change: QuotaChange, effect: Effect | None) -> str:
    before, after, inherits = change.before, change.after, ["", ""]
    if effect is not None and before is None and effect.before is not None:
        before, inherits[0] = effect.before, "inherited "
    if effect is not None and after is None and effect.after is not None:
        after, inherits[1] = effect.after, "inherited "
    displayed = quantities(change.key, before, after)
    meaning = "" if effect is None else by_how_much(effect.direction, effect.factor)
    notes = [meaning, FLAGGED.get(change.cause, ""), change.note]
    return (
        f"| {cell(entity_text(change.entity), str(change.key))} | {prose(inherits[0] + displayed[0])} |"
        f" {prose(inherits[1] + displayed[1])} | {prose('; '.join(note for note in notes if note))} |"
    )


# ---- below the table -----------------------------------------------------------------------------


def _further(preview: Preview, *, is_verified: bool, is_recorded: bool) -> list[str]:
    """Return one line each: clients with a different limit, counts, the effect of a merge, how to plan again."""
    return [
        *_affected_clients(preview, is_recorded=is_recorded),
        *_counted_findings_text(preview),
        f"**On merge**: {_on_merge(preview, is_verified=is_verified)}",
        f"**Plan again**: {_plan_again(preview)}",
    ]


def _affected_clients(preview: Preview, *, is_recorded: bool) -> list[str]:
    """Return the line about named clients; none of zero clients beside recorded use, which counts others, too."""
    impact = preview.impact
    if impact is None or not impact.principal_count or not preview.plan.changes:
        return []
    if is_recorded and not impact.affected_count:
        return []
    clients = list(dict.fromkeys(affected.principal for affected in impact.affected))
    shared_clients = {row.principal for row in impact.affected if row.is_shared_anew}
    client_texts = fitting(
        (markdown(entity_text(own_entity(client))) for client in clients[:MOST_REASONS]),
        _CLIENTS_ROOM,
    )
    remainder = (
        [f"{len(clients) - len(client_texts):,} more"] if len(clients) > len(client_texts) else []
    )
    text = f"{impact.affected_count:,} of {named_clients(impact.principal_count)}"
    if shared_clients:
        text += f", {len(shared_clients):,} of them shared with other clients than before"
    if client_texts:
        text += f"; beyond the table: {', '.join([*client_texts, *remainder])}"
    return [f"**Clients with a different limit**: {text}."]


def _counted_findings_text(preview: Preview) -> list[str]:
    """Return counts of findings that the page lists: they may be quotas of others."""
    numbers = counts(preview)
    parts = [
        f"{kind.title.lower()} {numbers[kind.name]:,}"
        for kind in SECTIONS
        if numbers[kind.name] and kind.name != "newOrphans"  # needs attention, above
    ]
    other_documents = sum(
        warning.claim.document not in preview.touched_documents for warning in preview.open_advice
    )
    accepted = len(preview.advice) - len(preview.open_advice)
    parts += [f"warnings about other documents {other_documents:,}"] if other_documents else []
    parts += [f"accepted warnings {accepted:,}"] if accepted else []
    return [f"**Only counted here**: {', '.join(parts)}."] if parts else []


def _on_merge(preview: Preview, *, is_verified: bool) -> str:
    if not is_verified:
        return "nothing is applied from this plan. Plan the base branch after the merge, and apply by that digest."
    if not preview.plan.changes:
        return "nothing is written to the cluster."
    if preview.errored or preview.violations:
        return "nothing is applied. Fix the refused changes, and plan again."
    if not preview.plan.cluster_id:
        return "nothing is applied from this plan, because it is not bound to a cluster."
    return (
        f"`kquota apply` makes {count(len(preview.plan.changes), 'change')} if the documents and the cluster still"
        " result in exactly this plan. Otherwise it writes nothing and requires a new plan."
    )


def _plan_again(preview: Preview) -> str:
    option = cluster_option(preview.origin.cluster)
    run = "run the job again"
    return f"`kquota plan{option}`, or {run}." if option is not None else f"{run}."


# ---- small things --------------------------------------------------------------------------------


def _separate(lines: Sequence[str]) -> list[str]:
    return [part for line in lines for part in (line, "")][:-1]
