"""Drift as a JSON document: the output of ``kquota drift --format json``, from which issues of a code host are written."""

from collections.abc import Sequence
from typing import Final, Literal

from reconciler.codecs.plan_rows import (
    PlanPart,
    PrintedFinding,
    Time,
    moment_of,
    printed_finding,
    time_of,
)
from reconciler.codecs.reader import edited, typed, values_of
from reconciler.errors import QuotaValueError
from reconciler.quota.entity import EntityParts, entity_text, from_parts, parts
from reconciler.quota.keys import Key, WrittenValue
from reconciler.quota.overrides import Override
from reconciler.quota.planner.plan import Finding
from reconciler.quota.results.report import ExpiredOverride
from reconciler.render.json_values import read_value, written_value
from reconciler.render.markdown.drift_issue import DriftReport
from reconciler.render.units import instant

KIND: Final = "kquota-drift"
FORMAT: Final = 1


class ExpiredRow(PlanPart, frozen=True, kw_only=True, rename={"author": "who"}):
    """An override that has ended and whose value is still live."""

    document: str
    entity: EntityParts
    expected: WrittenValue
    key: Key
    live: WrittenValue
    reason: str
    text: str
    until: Time
    author: str

    def expired(self) -> ExpiredOverride:
        """Return the override.

        Raises:
            QuotaValueError: The entity or the time cannot be.
        """
        live = read_value(self.live)
        return ExpiredOverride(
            override=Override(
                entity=from_parts(self.entity),
                key=self.key,
                value=live,
                until=moment_of("until", self.until),
                author=self.author,
                reason=self.reason,
            ),
            expected=read_value(self.expected),
            live=live,
            document=self.document,
        )


class DriftFile(PlanPart, frozen=True, kw_only=True, tag_field="kind", tag=KIND):
    """The document of one cluster."""

    checked_at: str
    cluster_id: str
    drift: list[PrintedFinding]
    expired_overrides: list[ExpiredRow]
    format: Literal[1]
    owned_pairs: int
    records_known: bool


def drift_document(
    findings: Sequence[Finding],
    expired_overrides: Sequence[ExpiredOverride] = (),
    *,
    cluster_id: str,
    now: float,
    owned_pairs: int = 0,
    records_known: bool = True,
) -> DriftFile:
    """Return the document.

    Args:
        findings: The differences.
        expired_overrides: Overrides that have ended and whose values are still live.
        cluster_id: The cluster.
        now: Seconds since the epoch.
        owned_pairs: Number of managed limits.
        records_known: Whether there were records to compare with.
    """
    return DriftFile(
        checked_at=instant(now),
        cluster_id=cluster_id,
        drift=list(map(printed_finding, findings)),
        expired_overrides=list(map(_expired_row, expired_overrides)),
        format=FORMAT,
        owned_pairs=owned_pairs,
        records_known=records_known,
    )


def _expired_row(expired: ExpiredOverride) -> ExpiredRow:
    override = expired.override
    return ExpiredRow(
        document=expired.document,
        entity=parts(override.entity),
        expected=written_value(expired.expected),
        key=override.key,
        live=written_value(expired.live),
        reason=override.reason,
        text=entity_text(override.entity),
        until=time_of(override.until),
        author=override.author or override.document,
    )


def read_drift(text: str, *, location: str) -> DriftReport:
    """Read the report of one cluster; a difference that an ignore rule covers is no incident.

    Raises:
        ConfigError: It is truncated, edited, or not such a report.
    """
    file = typed(text, DriftFile, format_version=FORMAT, location=location)
    try:
        findings = values_of("drift", file.drift, PrintedFinding.finding)
        expired = values_of("expiredOverrides", file.expired_overrides, ExpiredRow.expired)
    except QuotaValueError as error:
        raise edited(str(error), location) from error
    return DriftReport(
        cluster_id=file.cluster_id,
        checked_at=file.checked_at,
        is_known=file.records_known,
        findings=tuple(finding for finding in findings if not finding.ignored),
        expired_overrides=expired,
    )
