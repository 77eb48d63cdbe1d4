"""Drift as a JSON document: what ``kquota drift --format json`` prints, and an issue of a code host is made from."""

from collections.abc import Iterable, Sequence
from typing import Final

from reconciler.codecs.plan_rows import alias_row, finding_row, read_finding
from reconciler.codecs.reader import DocumentReader, load
from reconciler.quota.entity_forms import entity_json, entity_text
from reconciler.quota.ip_aliases import IpAlias
from reconciler.quota.keys import Key
from reconciler.quota.ownership import Override
from reconciler.quota.planner.plan import Finding
from reconciler.quota.results.expired_overrides import ExpiredOverride
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
    aliases: Iterable[IpAlias] = (),
) -> dict[str, Json]:
    """The document, with the other spellings of addresses that are ours."""
    return {
        "kind": KIND,
        "format": FORMAT,
        "clusterId": cluster_id,
        "checkedAt": instant(now),
        "drift": [finding_row(finding) for finding in findings],
        "expiredOverrides": [_expired_row(expired) for expired in expired_overrides],
        "twins": [alias_row(alias) for alias in aliases],
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
        "who": override.author,
        "reason": override.reason,
        "document": expired.document,
    }


def read_drift(text: str, *, location: str) -> DriftReport:
    """The report of one cluster.

    Raises:
        ConfigError: It is cut off, edited, of several clusters, or no report of drift.
    """
    top = load(text, kind=KIND, format_version=FORMAT, location=location)
    findings = top["drift"].rows(_read_finding)
    return DriftReport(
        cluster_id=top["clusterId"].text(),
        checked_at=top["checkedAt"].text(),
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
    """One row; what an ignore rule acts on is in the report, and is no incident."""
    is_ignored = "section" in row and row["section"].value == "ignored"
    return read_finding(row, "ignored" if is_ignored else "drift")
