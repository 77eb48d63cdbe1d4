"""The content of a page about one cluster, as rows that refer to a lookup table: changes, clients, quotas, findings, history.

The order of the fields of a row is the order in which ``page/sections.js`` reads them; both refer to each other.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.quota.entity import Entity
from reconciler.quota.entity_forms import entity_text, parts_text
from reconciler.quota.keys import COLUMN_OF, COLUMNS
from reconciler.quota.ownership import NO_RECORD, OwnershipRecords
from reconciler.quota.planner.impact import AffectedPrincipal, Direction, Impact, shadows
from reconciler.quota.planner.plan import Finding, apply_to
from reconciler.quota.precedence import EffectiveLimit, unranked_entities
from reconciler.quota.results.report import Preview
from reconciler.quota.state import QuotaState
from reconciler.render.cause_text import (
    REASONS,
    SECTIONS,
    SectionKind,
    counts,
    sections,
    status_word,
)
from reconciler.render.html.history import ChangeHistory
from reconciler.render.impact_rows import SHARING, impact_lines
from reconciler.render.json_values import Json
from reconciler.render.lookup_table import PageLookup
from reconciler.render.recorded_use import RecordedUse, recorded_facts
from reconciler.render.rows import (
    by_how_much,
    change_rows,
    finding_rows,
    headline,
    hiding_notes,
    summary,
)
from reconciler.render.units import age, instant, number


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPage:
    """One cluster as a page shows it."""

    name: str
    preview: Preview
    live: QuotaState  # the live quotas, or those of the snapshot
    owned: OwnershipRecords | None = None  # our records; None if there are none
    history: ChangeHistory | None = None  # the content of the audit log; None if no log was given
    declared: bool = True  # whether there were documents; without them a plan is meaningless
    recorded: RecordedUse | None = None  # the effect by recorded use; None = not requested


def cluster_facts(cluster_page: ClusterPage, lookup: PageLookup) -> dict[str, Json]:
    """Return the content of a page about a cluster."""
    preview, word = cluster_page.preview, lookup.text_number
    plan = preview.plan
    taken_at = preview.snapshot_at
    return {
        "name": word(cluster_page.name),
        "clusterId": word(plan.cluster_id),
        "declared": cluster_page.declared,
        "headline": word(headline(preview)),
        "summary": word(summary(preview)),
        "verdict": word(preview.verdict.source),
        "verdictWhy": word(preview.verdict.reason),
        "createdAt": word(instant(preview.created_at)),
        "snapshotAt": None if taken_at is None else word(instant(taken_at)),
        "snapshotAge": None if taken_at is None else word(age(preview.created_at - taken_at)),
        "policy": word(str(preview.policy)),
        "driftDetection": word(str(preview.drift_mode)),
        "who": word(preview.origin.author),
        "commit": word(preview.origin.commit),
        "digest": word(preview.digest),
        "applyable": preview.applyable,
        "complete": plan.complete,
        "errored": preview.errored,
        "recordsKnown": plan.removals_known,
        "counts": dict(counts(preview)),
        "changes": _changes(preview, lookup),
        "directions": _directions(preview.impact),
        "impact": [word(line) for line in impact_lines(preview)],
        "known": 0 if preview.impact is None else preview.impact.principal_count,
        "affected": _affected_rows(preview.impact, lookup),
        "shadows": _shadows(cluster_page, lookup),
        "findings": [
            _section(kind, findings, preview, lookup)
            for kind in SECTIONS
            if (findings := sections(plan)[kind.name])
        ],
        "violations": [
            [
                None if violation.entity is None else lookup.entity(violation.entity),
                None if violation.key is None else COLUMN_OF[violation.key],
                word(violation.message),
                word(violation.place),
                word(violation.allow_with),
            ]
            for violation in preview.violations
        ],
        "conflicts": [
            [
                lookup.entity(conflict.entity),
                COLUMN_OF[conflict.key],
                [
                    word(f"{claim.document} ({claim.place(conflict.key)})")
                    for claim in conflict.claims
                ],
            ]
            for conflict in plan.conflicts
        ],
        "refused": [
            [lookup.entity(subject), word(rejected.name), word(rejected.message)]
            for subject, rejected in sorted(
                preview.verdict.rejections.items(), key=lambda item: entity_text(item[0])
            )
        ],
        "recorded": None
        if cluster_page.recorded is None
        else recorded_facts(cluster_page.recorded, lookup),
        "warnings": [word(warning) for warning in preview.warnings],
        "advice": [
            [
                word(warning.place),
                word(
                    warning.message
                    + (f" (accepted: {warning.accepted})" if warning.accepted else "")
                ),
            ]
            for warning in preview.advice
        ],
        "quotas": _quotas(cluster_page, lookup),
        "foreign": _foreign(cluster_page.live, lookup),
        "unranked": _unranked_rows(cluster_page.live, lookup),
        "history": None if cluster_page.history is None else _history(cluster_page.history, lookup),
        "historyLeftOut": 0 if cluster_page.history is None else cluster_page.history.left_out,
    }


def _changes(preview: Preview, lookup: PageLookup) -> list[Json]:
    """Return rows: entity, column, action, before, after, direction, meaning, cause, reason, flag, place, document, note."""
    effects = preview.impact.effects if preview.impact is not None else ()
    rows: list[Json] = []
    for at, (change, row) in enumerate(
        zip(preview.plan.changes, change_rows(preview), strict=True)
    ):
        claim, owner, key = change.claim, change.owner, change.key
        source = claim if claim is not None else owner
        rows.append(
            [
                lookup.entity(change.entity),
                COLUMN_OF[key],
                lookup.text_number(change.action),
                lookup.value(key, change.before),
                lookup.value(key, change.after),
                lookup.text_number(str(effects[at].direction) if effects else ""),
                lookup.text_number(row.meaning),
                lookup.text_number(str(change.cause)),
                lookup.text_number(REASONS[change.cause]),
                lookup.text_number(row.reason),
                lookup.text_number("" if claim is None else claim.place(key)),
                lookup.text_number("" if source is None else source.document),
                lookup.text_number(change.note),
            ]
        )
    return rows


def _directions(impact: Impact | None) -> Mapping[str, int]:
    if impact is None:
        return {}
    return {
        str(direction): impact.count(direction)
        for direction in Direction
        if impact.count(direction)
    }


def _affected_rows(impact: Impact | None, lookup: PageLookup) -> list[Json]:
    """Return rows: client, column, direction, factor, before (value, level, source; without a level: unknown), after (the same), sharing."""
    if impact is None:
        return []
    return [_affected_row(affected, lookup) for affected in impact.affected]


def _affected_row(affected: AffectedPrincipal, lookup: PageLookup) -> list[Json]:
    return [
        lookup.client(affected.principal),
        COLUMN_OF[affected.key],
        lookup.text_number(str(affected.direction)),
        lookup.text_number(by_how_much(affected.direction, affected.factor)),
        *_side(affected.before, lookup),
        *_side(affected.after, lookup),
        lookup.text_number(SHARING[affected.sharing]),
    ]


def _side(effective: EffectiveLimit, lookup: PageLookup) -> list[Json]:
    if not effective.is_known:
        return [None, None, None]
    source = None if effective.source is None else lookup.entity(effective.source)
    return [lookup.value(effective.key, effective.value), effective.level, source]


def _shadows(cluster_page: ClusterPage, lookup: PageLookup) -> list[Json]:
    """Return rows: entity, column, value, the more specific entity, whether it could apply before; after the plan."""
    after = apply_to(cluster_page.live, cluster_page.preview.plan.changes)
    impact = cluster_page.preview.impact
    new = set() if impact is None else set(impact.new_shadows)
    return [
        [
            lookup.entity(shadow.entity),
            COLUMN_OF[shadow.key],
            lookup.value(shadow.key, after.value(shadow.entity, shadow.key)),
            lookup.entity(shadow.by),
            shadow in new,
        ]
        for shadow in shadows(after)
    ]


def _section(
    kind: SectionKind, findings: tuple[Finding, ...], preview: Preview, lookup: PageLookup
) -> dict[str, Json]:
    """Return rows: entity, column, live, declared (or applied), first seen, age, place or document, note, reason."""
    word = lookup.text_number
    now, notes = preview.created_at, hiding_notes(preview)
    rows: list[Json] = []
    for finding, row in zip(
        findings, finding_rows(findings, kind, now=now, notes=notes), strict=True
    ):
        expected = finding.desired if finding.desired is not None else finding.applied
        rows.append(
            [
                lookup.entity(finding.entity),
                COLUMN_OF[finding.key],
                lookup.value(finding.key, finding.live),
                None if kind.name == "unmanaged" else lookup.value(finding.key, expected),
                word("" if finding.since is None else instant(finding.since)),
                word("" if finding.since is None else age(now - finding.since)),
                word(row.place),
                word(row.note),
                word(REASONS[finding.cause]),
            ]
        )
    return {
        "name": kind.name,
        "title": word(kind.title),
        "says": word(kind.description),
        "rows": rows,
    }


def _quotas(cluster_page: ClusterPage, lookup: PageLookup) -> list[Json]:
    """Return rows: entity, one value per column, ownership in a word, and the document that declared it last."""
    state_of: dict[Entity, str] = {}
    for kind in reversed(SECTIONS):
        word = _WHOSE.get(kind.name)
        if word is not None:
            state_of.update(
                (finding.entity, word) for finding in sections(cluster_page.preview.plan)[kind.name]
            )
    records = {} if cluster_page.owned is None else cluster_page.owned.records
    rows: list[Json] = []
    for subject in cluster_page.live.entities():
        limits = cluster_page.live.limits[subject]
        owners = records.get(subject, NO_RECORD).owners
        documents = sorted(
            {owner.document for owner in owners if owner is not None and owner.document}
        )
        state_word = state_of.get(subject, "ours" if documents else "not ours")
        rows.append(
            [
                lookup.entity(subject),
                *(lookup.value(key, value) for key, value in zip(COLUMNS, limits, strict=True)),
                lookup.text_number(
                    "partly ours" if documents and state_word == "unmanaged" else state_word
                ),
                lookup.text_number(", ".join(documents)),
            ]
        )
    return rows


_WHOSE: Mapping[str, str] = {
    "drift": "drifted",
    "newOrphans": "document deleted",
    "orphans": "document deleted",
    "overrides": "overridden",
    "frozen": "suspended or unusable",
    "unmanaged": "unmanaged",
}
"""Sections of findings that describe a live entity; the first that contains it applies."""


def _unranked_rows(live: QuotaState, lookup: PageLookup) -> list[Json]:
    """Return text, parts and values by column of entities with types that are not Kafka's: their clients' limits are unknown."""
    return [
        [
            parts_text(entity_parts),
            [[kind, name] for kind, name in entity_parts],
            [lookup.value(key, dict(values).get(key)) for key in COLUMNS],
        ]
        for entity_parts, values in unranked_entities(live)
    ]


def _foreign(live: QuotaState, lookup: PageLookup) -> list[Json]:
    """Return entity, key, value and kind of what this program never changes, as texts."""
    word = lookup.text_number
    rows: list[Json] = [
        [word(entity_text(subject)), word(name), word(number(value)), word("foreign key")]
        for subject, values in sorted(live.foreign_values.items(), key=str)
        for name, value in values
    ]
    rows += [
        [word(parts_text(entity_parts)), word(name), word(number(value)), word("foreign entity")]
        for entity_parts, values in live.foreign_entities
        for name, value in values
    ]
    return rows


def _history(history: ChangeHistory, lookup: PageLookup) -> list[Json]:
    """Return rows: time, author, commit, entity, column, before, after, cause, document, outcome, note; newest first."""
    word = lookup.text_number
    return [
        [
            word(change.time),
            word(change.author),
            word(change.commit),
            lookup.entity(change.entity),
            COLUMN_OF[change.key],
            lookup.value(change.key, change.before),
            lookup.value(change.key, change.after),
            word(change.cause),
            word(change.document),
            word(status_word(change.outcome)),
            word(change.note),
        ]
        for change in history.entries
    ]
