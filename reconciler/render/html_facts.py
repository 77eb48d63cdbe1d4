"""What a page tells of one cluster, as rows of numbers into a ledger: changes, clients, quotas, findings, history.

The order of the fields of a row is the order in which ``page/sections.js`` reads them; both name each other.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.quota.change import Finding, apply_to
from reconciler.quota.entity import Entity
from reconciler.quota.impact import Affected, Direction, Impact, shadows
from reconciler.quota.keys import COLUMN_OF, COLUMNS
from reconciler.quota.owned import NO_RECORD, Owned
from reconciler.quota.precedence import Effective
from reconciler.quota.report import Preview
from reconciler.quota.state import State
from reconciler.render.documents import Json
from reconciler.render.html_history import History
from reconciler.render.html_ledger import Ledger
from reconciler.render.impact_rows import SHARING
from reconciler.render.json_plan import counts
from reconciler.render.names import entity_text, parts_text
from reconciler.render.reasons import REASONS, SECTIONS, SectionKind, sections
from reconciler.render.recorded import Recorded, recorded_facts
from reconciler.render.rows import (
    by_how_much,
    change_rows,
    finding_rows,
    headline,
    hiding_notes,
    impact_lines,
    summary,
)
from reconciler.render.units import age, instant, number


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One cluster as a page shows it.

    Attributes:
        name: What people call the cluster.
        preview: The plan, with everything that belongs to it.
        live: What the cluster has, or what stands for it.
        owned: Our records; ``None`` where nobody kept any.
        history: What the audit log tells; ``None`` where no log was given.
        declared: Whether there were documents at all; without them a plan says nothing.
        recorded: What recorded use says; ``None`` = nobody asked.
    """

    name: str
    preview: Preview
    live: State
    owned: Owned | None = None
    history: History | None = None
    declared: bool = True
    recorded: Recorded | None = None


def cluster_facts(look: Look, ledger: Ledger) -> dict[str, Json]:
    """Everything that a page tells of a cluster."""
    preview, word = look.preview, ledger.word
    plan = preview.plan
    taken = preview.snapshot_at
    return {
        "name": word(look.name),
        "clusterId": word(plan.cluster_id),
        "declared": look.declared,
        "headline": word(headline(preview)),
        "summary": word(summary(preview)),
        "verdict": word(preview.verdict.source),
        "verdictWhy": word(preview.verdict.why),
        "createdAt": word(instant(preview.created_at)),
        "snapshotAt": None if taken is None else word(instant(taken)),
        "snapshotAge": None if taken is None else word(age(preview.created_at - taken)),
        "policy": word(str(preview.policy)),
        "driftDetection": word(str(preview.drift_mode)),
        "who": word(preview.origin.who),
        "commit": word(preview.origin.commit),
        "digest": word(plan.digest),
        "applyable": preview.applyable,
        "complete": plan.complete,
        "errored": preview.errored,
        "recordsKnown": plan.removals_known,
        "counts": dict(counts(preview)),
        "changes": _changes(preview, ledger),
        "directions": _directions(preview.impact),
        "impact": [word(line) for line in impact_lines(preview)],
        "known": 0 if preview.impact is None else preview.impact.known,
        "affected": _affected(preview.impact, ledger),
        "shadows": _shadows(look, ledger),
        "findings": [
            _section(kind, found, preview, ledger)
            for kind in SECTIONS
            if (found := sections(plan)[kind.name])
        ],
        "violations": [
            [
                None if one.entity is None else ledger.entity(one.entity),
                None if one.key is None else COLUMN_OF[one.key],
                word(one.message),
                word(one.place),
                word(one.allow_with),
            ]
            for one in preview.violations
        ],
        "conflicts": [
            [
                ledger.entity(one.entity),
                COLUMN_OF[one.key],
                [word(f"{claim.document} ({claim.place(one.key)})") for claim in one.claims],
            ]
            for one in plan.conflicts
        ],
        "refused": [
            [ledger.entity(subject), word(one.name), word(one.message)]
            for subject, one in sorted(
                preview.verdict.refused.items(), key=lambda item: entity_text(item[0])
            )
        ],
        "recorded": None if look.recorded is None else recorded_facts(look.recorded, ledger),
        "warnings": [word(one) for one in preview.warnings],
        "advice": [
            [
                word(one.place),
                word(one.message + (f" (accepted: {one.accepted})" if one.accepted else "")),
            ]
            for one in preview.advice
        ],
        "quotas": _quotas(look, ledger),
        "foreign": _foreign(look.live, ledger),
        "history": None if look.history is None else _history(look.history, ledger),
        "historyLeftOut": 0 if look.history is None else look.history.left_out,
    }


def _changes(preview: Preview, ledger: Ledger) -> list[Json]:
    """Entity, column, action, before, after, direction, meaning, cause, reason, flag, place, document, note."""
    effects = preview.impact.effects if preview.impact is not None else ()
    made: list[Json] = []
    for at, (change, row) in enumerate(
        zip(preview.plan.changes, change_rows(preview), strict=True)
    ):
        claim, owner, key = change.claim, change.owner, change.key
        source = claim if claim is not None else owner
        made.append(
            [
                ledger.entity(change.entity),
                COLUMN_OF[key],
                ledger.word(change.action),
                ledger.value(key, change.before),
                ledger.value(key, change.after),
                ledger.word(str(effects[at].direction) if effects else ""),
                ledger.word(row.meaning),
                ledger.word(str(change.cause)),
                ledger.word(REASONS[change.cause]),
                ledger.word(row.why),
                ledger.word("" if claim is None else claim.place(key)),
                ledger.word("" if source is None else source.document),
                ledger.word(change.note),
            ]
        )
    return made


def _directions(impact: Impact | None) -> Mapping[str, int]:
    if impact is None:
        return {}
    return {str(one): impact.count(one) for one in Direction if impact.count(one)}


def _affected(impact: Impact | None, ledger: Ledger) -> list[Json]:
    """Client, column, direction, by how much, before (value, level, source), after (the same), what its bucket becomes."""
    if impact is None:
        return []
    return [_affected_row(one, ledger) for one in impact.affected]


def _affected_row(one: Affected, ledger: Ledger) -> list[Json]:
    return [
        ledger.client(one.principal),
        COLUMN_OF[one.key],
        ledger.word(str(one.direction)),
        ledger.word(by_how_much(one.direction, one.factor)),
        *_side(one.before, ledger),
        *_side(one.after, ledger),
        ledger.word(SHARING[one.sharing]),
    ]


def _side(one: Effective, ledger: Ledger) -> list[Json]:
    source = None if one.source is None else ledger.entity(one.source)
    return [ledger.value(one.key, one.value), one.level, source]


def _shadows(look: Look, ledger: Ledger) -> list[Json]:
    """Entity, column, value, the entity that is closer, whether it could apply before: as it will be after the plan."""
    after = apply_to(look.live, look.preview.plan.changes)
    impact = look.preview.impact
    new = set() if impact is None else set(impact.new_shadows)
    return [
        [
            ledger.entity(one.entity),
            COLUMN_OF[one.key],
            ledger.value(one.key, after.value(one.entity, one.key)),
            ledger.entity(one.by),
            one in new,
        ]
        for one in shadows(after)
    ]


def _section(
    kind: SectionKind, found: tuple[Finding, ...], preview: Preview, ledger: Ledger
) -> dict[str, Json]:
    """Entity, column, live, declared (or applied), first seen, age, place or document, note, reason."""
    word = ledger.word
    now, notes = preview.created_at, hiding_notes(preview)
    rows: list[Json] = []
    for one, row in zip(found, finding_rows(found, kind, now=now, notes=notes), strict=True):
        wanted = one.desired if one.desired is not None else one.applied
        rows.append(
            [
                ledger.entity(one.entity),
                COLUMN_OF[one.key],
                ledger.value(one.key, one.live),
                None if kind.name == "unmanaged" else ledger.value(one.key, wanted),
                word("" if one.since is None else instant(one.since)),
                word("" if one.since is None else age(now - one.since)),
                word(row.place),
                word(row.note),
                word(REASONS[one.cause]),
            ]
        )
    return {"name": kind.name, "title": word(kind.title), "says": word(kind.says), "rows": rows}


def _quotas(look: Look, ledger: Ledger) -> list[Json]:
    """Entity, one value per column, whose it is in a word, and the document that asked for it last."""
    state_of: dict[Entity, str] = {}
    for kind in reversed(SECTIONS):
        word = _WHOSE.get(kind.name)
        if word is not None:
            state_of.update((one.entity, word) for one in sections(look.preview.plan)[kind.name])
    records = {} if look.owned is None else look.owned.records
    rows: list[Json] = []
    for subject in look.live.entities():
        limits = look.live.limits[subject]
        owners = records.get(subject, NO_RECORD).owners
        documents = sorted({one.document for one in owners if one is not None and one.document})
        found = state_of.get(subject, "ours" if documents else "not ours")
        rows.append(
            [
                ledger.entity(subject),
                *(ledger.value(key, value) for key, value in zip(COLUMNS, limits, strict=True)),
                ledger.word("partly ours" if documents and found == "unmanaged" else found),
                ledger.word(", ".join(documents)),
            ]
        )
    return rows


_WHOSE: Mapping[str, str] = {
    "drift": "drifted",
    "orphans": "orphaned",
    "overrides": "overridden",
    "frozen": "frozen",
    "unmanaged": "unmanaged",
}
"""Sections of findings that say how a live entity stands, the first of them that has it."""


def _foreign(live: State, ledger: Ledger) -> list[Json]:
    """Entity, key, value and kind of what this program keeps its hands off, as words."""
    word = ledger.word
    rows: list[Json] = [
        [word(entity_text(subject)), word(name), word(number(value)), word("foreign key")]
        for subject, values in sorted(live.foreign_values.items(), key=str)
        for name, value in values
    ]
    rows += [
        [word(parts_text(named)), word(name), word(number(value)), word("foreign entity")]
        for named, values in live.foreign_entities
        for name, value in values
    ]
    return rows


def _history(history: History, ledger: Ledger) -> list[Json]:
    """Time, who, commit, entity, column, before, after, cause, document, outcome, words; newest first."""
    word = ledger.word
    return [
        [
            word(one.time),
            word(one.who),
            word(one.commit),
            ledger.entity(one.entity),
            COLUMN_OF[one.key],
            ledger.value(one.key, one.before),
            ledger.value(one.key, one.after),
            word(one.cause),
            word(one.document),
            word(one.outcome),
            word(one.words),
        ]
        for one in history.entries
    ]
