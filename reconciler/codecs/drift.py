"""Drift as a JSON document: the output of ``kquota drift --format json``, from which issues of a code host are written."""

from collections.abc import Sequence
from typing import Final

from reconciler.codecs.plan_rows import finding_row, read_finding
from reconciler.codecs.reader import DocumentReader, load
from reconciler.quota.entity_forms import entity_json, entity_text
from reconciler.quota.keys import Key
from reconciler.quota.overrides import Override
from reconciler.quota.planner.plan import Finding
from reconciler.quota.results.report import ExpiredOverride
from reconciler.render.json_values import Json, value_json
from reconciler.render.markdown.drift_issue import DriftReport
from reconciler.render.units import instant

KIND: Final = "kquota-drift"
FORMAT: Final = 1


def drift_document(
    findings: Sequence[Finding],
    expired_overrides: Sequence[ExpiredOverride] = (),
    *,
    cluster_id: str,
    now: float,
    records_known: bool = True,
) -> dict[str, Json]:
    """Return the document.

    Args:
        records_known: Whether there were records to compare with.
    """
    return {
        "kind": KIND,
        "format": FORMAT,
        "clusterId": cluster_id,
        "checkedAt": instant(now),
        "recordsKnown": records_known,
        "drift": [finding_row(finding) for finding in findings],
        "expiredOverrides": [_expired_row(expired) for expired in expired_overrides],
    }


def _expired_row(expired: ExpiredOverride) -> dict[str, Json]:
    override = expired.override
    return {
        "entity": entity_json(override.entity),
        "text": entity_text(override.entity),
        "key": str(override.key),
        "expected": value_json(expired.expected),
        "live": value_json(expired.live),
        "until": instant(override.until),
        "who": override.author or override.document,
        "reason": override.reason,
        "document": expired.document,
    }


def read_drift(text: str, *, location: str) -> DriftReport:
    """Read the report of one cluster."""
    top = load(text, kind=KIND, format_version=FORMAT, location=location)
    findings = top["drift"].rows(_read_finding)
    return DriftReport(
        cluster_id=top["clusterId"].text(),
        checked_at=top["checkedAt"].text(),
        is_known="recordsKnown" not in top or top["recordsKnown"].boolean(),
        findings=tuple(finding for finding in findings if not finding.ignored),
        expired_overrides=top["expiredOverrides"].rows(_read_expired)
        if "expiredOverrides" in top
        else (),
    )


def _read_expired(row: DocumentReader) -> ExpiredOverride:
    live = row["live"].quota_value()
    expired = ExpiredOverride(
        override=Override(
            entity=row["entity"].entity(),
            key=row["key"].word(Key),
            value=live,
            until=row["until"].instant(),
            author=row["who"].text(),
            reason=row["reason"].text(),
        ),
        expected=row["expected"].quota_value(),
        live=live,
        document=row["document"].text(),
    )
    row.expect(_expired_row(expired))
    return expired


def _read_finding(row: DocumentReader) -> Finding:
    """Read one row; a difference that an ignore rule covers is in the report, but is no incident."""
    is_ignored = "section" in row and row["section"].value == "ignored"
    finding = read_finding(row, "ignored" if is_ignored else "drift")
    row.expect(finding_row(finding))
    return finding
