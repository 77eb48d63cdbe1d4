"""Rows of a plan document about one pair each, other than changes: findings, limits that removals rely on. Writer and reader."""

from collections.abc import Mapping
from typing import Final

from reconciler.codecs.change_rows import claim_place, read_claim
from reconciler.codecs.reader import DocumentReader
from reconciler.quota.entity_forms import entity_json, entity_text
from reconciler.quota.keys import Key
from reconciler.quota.ownership import Owner
from reconciler.quota.planner.fallbacks import Fallback
from reconciler.quota.planner.plan import Finding
from reconciler.quota.policy import Action, Cause
from reconciler.render.cause_text import REASONS, section_of
from reconciler.render.json_values import Json, value_json
from reconciler.render.units import instant

_ACTIONS: Final[Mapping[str, Action]] = {
    "newOrphans": Action.ORPHAN,
    "orphans": Action.ORPHAN,
    "recorded": Action.RECORD,
    "overrides": Action.NOTHING,
}
"""Action of the findings of a section; ``REPORT`` for all others."""


# ---- findings --------------------------------------------------------------------------------


def finding_row(finding: Finding) -> dict[str, Json]:
    """Return one finding."""
    return {
        "entity": entity_json(finding.entity),
        "text": entity_text(finding.entity),
        "key": str(finding.key),
        "cause": str(finding.cause),
        "section": section_of(finding),
        "desired": value_json(finding.desired),
        "applied": value_json(finding.applied),
        "live": value_json(finding.live),
        "reason": REASONS[finding.cause],
        "note": finding.note,
        "document": finding.owner.document if finding.owner is not None else None,
        "since": None if finding.since is None else instant(finding.since),
        **claim_place(finding.claim, finding.key),
    }


def read_finding(reader: DocumentReader, section: str) -> Finding:
    """Read the facts of one finding of a section; the caller compares the row with the written one.

    Raises:
        ConfigError: A field has another form.
    """
    subject = reader["entity"].entity()
    return Finding(
        entity=subject,
        key=reader["key"].word(Key),
        desired=reader["desired"].quota_value(),
        applied=reader["applied"].quota_value(),
        live=reader["live"].quota_value(),
        cause=reader["cause"].word(Cause),
        action=_ACTIONS.get(section, Action.REPORT),
        # A finding has only the owner's document; a claim has only its place.
        claim=reader["file"].optional(lambda _: read_claim(reader, subject, "")),
        owner=reader["document"].optional(lambda document: Owner(document=document.text())),
        since=reader["since"].optional(DocumentReader.instant),
        note=reader["note"].text(),
        ignored=section == "ignored",
        is_new=section == "newOrphans",
    )


# ---- limits that removals rely on ------------------------------------------------------------


def fallback_row(fallback: Fallback) -> dict[str, Json]:
    """Return a limit that clients of removals fall back to."""
    return {
        "entity": entity_json(fallback.entity),
        "key": str(fallback.key),
        "live": value_json(fallback.value),
    }


def read_fallback(reader: DocumentReader) -> Fallback:
    """Read what :func:`fallback_row` wrote.

    Raises:
        ConfigError: It has another form.
    """
    fallback = Fallback(
        entity=reader["entity"].entity(),
        key=reader["key"].word(Key),
        value=reader["live"].set_value(),
    )
    reader.expect(fallback_row(fallback))
    return fallback
