"""Drift as the text of an issue: a table that fits.

Ages would change with every observation; an issue shows when something was first observed and when it was checked, so
that its text changes only with the facts.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from reconciler import DOCUMENTATION
from reconciler.base.escaping import escaped, markdown, prose
from reconciler.quota.entity import entity_text
from reconciler.quota.planner.plan import Finding
from reconciler.quota.results.report import ExpiredOverride
from reconciler.render.cause_text import DRIFT
from reconciler.render.markdown.comment import fitting, size
from reconciler.render.rows import expired_section, finding_section
from reconciler.render.sections import Section
from reconciler.render.table import markdown_heads, markdown_rows
from reconciler.render.units import PER_BROKER, count, instant

_ADVICE: Final = (
    "To write the declared values again: `kquota apply --correct-drift`. To keep the live values, declare them"
    f" ([what to do about drift]({DOCUMENTATION}/runbooks/KquotaDrift.md))."
    " This issue is updated, and closed when there is no drift."
)


_OVERRIDE_ADVICE: Final = (
    "To write the expected values of expired overrides: `kquota override end --expired`. To keep a value: begin the"
    " override again with a new end, or declare the value."
)


class DriftReport(Struct, frozen=True, kw_only=True, gc=False):
    """The output of ``kquota drift --format json``."""

    cluster_id: str
    checked_at: str
    findings: tuple[Finding, ...]  # the differences, in document order, without ignored pairs
    expired_overrides: tuple[ExpiredOverride, ...] = ()
    # Whether there were records to compare with; without them no finding does not mean that there is no drift.
    is_known: bool = True

    @property
    def table(self) -> Section:
        """The rows of the issue."""
        drift = finding_section(DRIFT, self.findings, since=instant)
        expired = expired_section(self.expired_overrides, ended=instant)
        return replace(drift, rows=drift.rows + expired.rows).section

    @property
    def facts(self) -> str:
        """The facts that decide whether the issue has to change."""
        drift = [
            f"{entity_text(finding.entity)} {finding.key} {finding.applied!r} {finding.live!r}"
            for finding in self.findings
        ]
        expired = [
            f"{entity_text(override.override.entity)} {override.override.key} {override.expected!r} {override.live!r} expired override"
            for override in self.expired_overrides
        ]
        return "\n".join([*drift, *expired])


def issue_title(label: str, report: DriftReport) -> str:
    """Return the title on one line; without numbers, so that it stays the same while the issue is open."""
    return f"Kafka quotas drifted: {escaped(label or report.cluster_id)}"


def issue_markdown(report: DriftReport, *, head: str, limit_characters: int, details: str) -> str:
    """Return the text of the issue, or of a summary where there is no drift.

    Args:
        head: Hidden lines at its begin.
        details: A Markdown link to the run, or "".
    """
    opening = [
        head,
        f"**Cluster {markdown(report.cluster_id)}: {_summary(report)}.**",
        "",
        f"Looked at {prose(report.checked_at)}. {details}".rstrip(),
    ]
    section = report.table
    if not section.rows:
        return "\n".join(opening) + "\n"
    opening += ["", *markdown_heads(section)]
    closing = [
        "",
        *([_OVERRIDE_ADVICE, ""] if report.expired_overrides else []),
        _ADVICE,
        "",
        f"<sub>{PER_BROKER}</sub>",
    ]
    return _fit_rows(opening, markdown_rows(section), closing, limit_characters)


def _summary(report: DriftReport) -> str:
    if not report.is_known:
        return "there are no ownership records, so drift cannot be determined"
    parts = [
        f"{count(number, noun)} {words}"
        for number, noun, words in (
            (len(report.findings), "live value", "different from the last applied value"),
            (len(report.expired_overrides), "override", "expired and still live"),
        )
        if number
    ]
    return ", ".join(parts) or "no drift"


def recovered_markdown(report: DriftReport, *, details: str) -> str:
    """Return the comment before the issue is closed."""
    sentence = f"No drift any more: at {prose(report.checked_at)} every value was as applied."
    return f"{sentence} {details}".rstrip() + "\n"


def _fit_rows(opening: list[str], table: Sequence[str], closing: list[str], max_length: int) -> str:
    rows = fitting(table, max_length - size([*opening, *closing]) - 60)
    missing = len(table) - len(rows)
    remainder = ["", f"… and {count(missing, 'row')} more."] if missing else []
    return "\n".join([*opening, *rows, *remainder, *closing]) + "\n"
