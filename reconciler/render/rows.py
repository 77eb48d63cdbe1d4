"""Rows for people, made once from a preview or an outcome; text and Markdown only lay them out.

Rows are made after the cut to the first N items; removals and failures come before the rest. Counts are never
computed from rows. Names are quoted (``escaping.quoted``) but not yet escaped for a place; each renderer does that.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from reconciler.quota.entity import entity_text
from reconciler.quota.planner.effects import Direction, Effect
from reconciler.quota.planner.plan import Finding, QuotaChange
from reconciler.quota.policy import Cause
from reconciler.quota.results.report import (
    ExpiredOverride,
    Outcome,
    PairOutcome,
    PairVisibility,
    Preview,
)
from reconciler.quota.state import Held, Rejected, Unknown
from reconciler.render.cause_text import (
    DRIFT,
    REASONS,
    SECTIONS,
    SectionKind,
    sections,
    status_word,
    waits_text,
)
from reconciler.render.sections import DisplayRow, RowSection
from reconciler.render.units import PER_BROKER, age, limit

PAGE_ROWS: Final = 2_000
"""Maximum number of rows of a table of an HTML page; tables of several clusters share it."""

_MARKS: Final[Mapping[str, tuple[str, str]]] = {
    "create": ("+", "green"),
    "update": ("~", "yellow"),
    "remove": ("-", "red"),
}
FLAGGED: Final[Mapping[Cause, str]] = {
    Cause.TAKEOVER: "has no ownership record",
    Cause.SPEC_OVER_DRIFT: "was changed outside kquota",
    Cause.DRIFT: "corrects drift",
    Cause.OVERRIDE: "override",
    Cause.TEMPORARY: "temporary",
    Cause.ENDED: "temporary limit ended",
}
"""Causes that a reviewer should notice, in one or two words."""


def change_sections(
    preview: Preview, *, max_rows: int | None = None
) -> tuple[RowSection, RowSection]:
    """Return the changes, and what is pending, each perhaps without rows.

    Args:
        max_rows: Maximum number of rows of each, chosen by :func:`selected_changes`; ``None`` = all.
    """
    changes = tuple(_change(*change) for change in selected_changes(preview, max_rows=max_rows))
    return (
        RowSection(
            name="changes",
            title="What changes",
            note=PER_BROKER,
            rows=changes,
            left_out=len(preview.plan.changes) - len(changes),
        ),
        _pending_section(preview, max_rows),
    )


def _pending_section(preview: Preview, max_rows: int | None) -> RowSection:
    delayed = preview.plan.delayed
    rows = tuple(_change(change, None) for change in delayed[:max_rows])
    return RowSection(
        name="pending",
        title="Declared under temporary limits",
        note="Reviewed and judged now, as changes of the values from before; in effect at the end of the temporary limit above.",
        rows=rows,
        left_out=len(delayed) - len(rows),
        colour="yellow",
    )


def selected_changes(
    preview: Preview, *, max_rows: int | None = None
) -> tuple[tuple[QuotaChange, Effect | None], ...]:
    """Return the changes with their effects, in plan order.

    Args:
        max_rows: Maximum number of changes; removals and changes with a remark are selected first.
    """
    impact, changes = preview.impact, preview.plan.changes
    places: Sequence[int] = range(len(changes))
    if max_rows is not None and len(places) > max_rows:
        places = sorted(sorted(places, key=lambda at: _is_plain(changes[at]))[:max_rows])
    return tuple((changes[at], impact.effects[at] if impact else None) for at in places)


def _is_plain(change: QuotaChange) -> bool:
    return change.after is not None and not change.note and change.cause not in FLAGGED


def finding_sections(
    preview: Preview, *, max_rows_of: Callable[[SectionKind], int] | None = None
) -> tuple[RowSection, ...]:
    """Return the findings by section, in display order; empty ones are omitted.

    Args:
        max_rows_of: Maximum number of rows of a section; ``None`` = all.
    """
    findings_by_kind = sections(preview.plan)
    return tuple(
        finding_section(
            kind,
            findings_by_kind[kind.name],
            since=lambda since: f"since {age(preview.created_at - since)}",
            max_rows=None if max_rows_of is None else max_rows_of(kind),
        )
        for kind in SECTIONS
        if findings_by_kind[kind.name]
    )


def finding_section(
    kind: SectionKind,
    findings: Sequence[Finding],
    *,
    since: Callable[[float], str],
    max_rows: int | None = None,
) -> RowSection:
    """Return findings of one kind.

    Args:
        since: The text about the time of the first observation.
    """
    rows = tuple(_finding(finding, kind, since) for finding in findings[:max_rows])
    return RowSection(
        name=kind.name,
        title=kind.title,
        note=kind.description,
        rows=rows,
        left_out=len(findings) - len(rows),
        colour=kind.colour,
        heads=(
            "Expected" if kind is DRIFT else "Live",
            "Live" if kind is DRIFT else "Declared",
            "Since",
        ),
    )


def expired_section(
    overrides: Sequence[ExpiredOverride],
    *,
    ended: Callable[[float], str],
    max_rows: int | None = None,
) -> RowSection:
    """Return expired overrides whose values are still live; ``ended``: the text about the time of their end."""
    rows = tuple(
        DisplayRow(
            mark="!",
            colour="yellow",
            entity=entity_text(expired.override.entity),
            key=str(expired.override.key),
            before=limit(expired.override.key, expired.expected),
            after=limit(expired.override.key, expired.live),
            meaning=ended(expired.override.until),
            place=expired.document,
            note=expired.override.words,
        )
        for expired in overrides[:max_rows]
    )
    return RowSection(
        name="expired",
        title="Expired overrides that are still live",
        note="Their end is late: the next apply or loop, or `kquota override end --expired` on this cluster, writes the expected values.",
        rows=rows,
        left_out=len(overrides) - len(rows),
        colour="yellow",
        heads=("Expected", "Live", "Since"),
    )


def outcome_rows(outcome: Outcome, *, max_rows: int) -> tuple[tuple[DisplayRow, ...], int]:
    """Return rows of changes with their results, in plan order, and the number of omitted ones.

    Beyond ``max_rows`` refused ones are kept before unknown, held, doubtful, unsent and applied ones.
    """
    pairs = outcome.pairs
    worst = sorted(range(len(pairs)), key=lambda at: _rank(pairs[at]))
    rows = tuple(_outcome(pairs[at]) for at in sorted(worst[:max_rows]))
    return rows, len(pairs) - len(rows)


_WORST_FIRST: Final = ("REJECTED", "UNKNOWN", "HELD", "APPLIED", "NOT SENT")


def _rank(pair: PairOutcome) -> int:
    return len(_WORST_FIRST) if pair.is_done else _WORST_FIRST.index(pair.status_text)


_OUTCOME_COLOURS: Final = {
    "APPLIED": "green",
    "REJECTED": "red",
    "HELD": "yellow",
    "UNKNOWN": "red",
    "NOT SENT": "dim",
}


_SHOWN: Final = {
    PairVisibility.NOT_YET: "not yet shown by every broker",
    PairVisibility.CHANGED: "changed by another writer meanwhile",
}


def outcome_note(pair: PairOutcome) -> str:
    """Return the outcome of a change that is not simply applied: ``REJECTED; INVALID_REQUEST: …``."""
    row = _outcome(pair)
    return "; ".join(part for part in (row.reason, row.meaning, row.note) if part)


def _outcome(pair: PairOutcome) -> DisplayRow:
    change = pair.change
    mark, _ = _MARKS[change.action]
    match pair.result:
        case Rejected(name=name, message=message):
            note = f"{name}: {message}"
        case Held(waits_for=waits_for):
            note = waits_text(change.entity, waits_for)
        case Unknown(reason=reason):
            note = reason
        case _:
            note = ""
    meaning = _SHOWN.get(pair.visibility, "")
    if pair.visibility is PairVisibility.CHANGED:
        meaning += f": {limit(change.key, pair.observed_value)}"
    return DisplayRow(
        mark=mark,
        colour=_OUTCOME_COLOURS[pair.status_text]
        if pair.is_done or pair.status_text != "APPLIED"
        else "yellow",
        entity=entity_text(change.entity),
        key=str(change.key),
        before=limit(change.key, change.before),
        after=limit(change.key, change.after),
        meaning=meaning,
        reason=status_word(pair.status_text),
        note=note,
    )


def _change(change: QuotaChange, effect: Effect | None) -> DisplayRow:
    mark, colour = _MARKS[change.action]
    place, selection = "", ""
    if change.claim is not None:
        place = change.claim.place(change.key) or change.claim.document
        selection = change.claim.selection_of(change.key)
    elif change.owner is not None:
        place = change.owner.document
    return DisplayRow(
        mark=mark,
        colour=colour,
        entity=entity_text(change.entity),
        key=str(change.key),
        before=limit(change.key, change.before),
        after=limit(change.key, change.after),
        meaning="" if effect is None else by_how_much(effect.direction, effect.factor),
        reason=FLAGGED.get(change.cause, ""),
        place=place,
        note="; ".join(filter(None, (change.note, selection and f"selected by {selection}"))),
        cause=f"{change.cause}: {REASONS[change.cause]}",
    )


def by_how_much(direction: Direction, factor: float | None) -> str:
    """Return ``tightened -50 %``, ``loosened x4``, ``newly limited``, ``effect unknown``; "" if nothing changes."""
    if direction is Direction.UNCHANGED:
        return ""
    if direction is Direction.UNKNOWN:
        return "effect unknown"
    if factor is None:
        return str(direction)
    if factor >= 2:
        factor_text = f"{factor:.3g}" if factor < 100 else f"{factor:,.0f}"
        return f"{direction} x{factor_text}"
    if factor < 0.005:
        share = f"{factor * 100:.2g}" if factor >= 0.0001 else "less than 0.01"
        return f"{direction} to {share if factor else 0} %"
    return f"{direction} {(factor - 1) * 100:+.3g} %"


_DRIFTED: Final = frozenset({Cause.DRIFT, Cause.CHANGED_BY_ANOTHER})
"""Causes that compare the expected value with the live one."""


def _finding(finding: Finding, kind: SectionKind, since: Callable[[float], str]) -> DisplayRow:
    place = ""
    if finding.claim is not None:
        place = finding.claim.place(finding.key) or finding.claim.document
    elif finding.owner is not None:
        place = finding.owner.document
    source, expected = (
        ("declared", finding.desired)
        if finding.desired is not None
        else ("applied", finding.applied)
    )
    live, drifted = limit(finding.key, finding.live), finding.cause in _DRIFTED
    reference = "" if expected is None else f"{source} {limit(finding.key, expected)}"
    note = finding.note if finding.note != REASONS[finding.cause] else ""
    return DisplayRow(
        mark=kind.mark,
        colour=kind.colour,
        entity=entity_text(finding.entity),
        key=str(finding.key),
        before=limit(finding.key, expected) if drifted else live,
        after=live if drifted else reference,
        has_arrow=drifted,
        meaning="" if finding.since is None else since(finding.since),
        reason="",
        place=place,
        note=note,
        cause=REASONS[finding.cause],
    )
