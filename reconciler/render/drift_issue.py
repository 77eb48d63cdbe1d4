"""Drift as the text of an issue: read from the JSON of ``kquota drift``, told in a table that fits.

Ages would change with every look; an issue says when something was first seen and when it was looked at, so that its
text changes only with the facts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from reconciler.quota.change import Finding
from reconciler.quota.expired_overrides import ExpiredOverride
from reconciler.quota.keys import Key
from reconciler.quota.owned import Override
from reconciler.render.documents import Reader, load
from reconciler.render.names import entity_text, escaped, markdown, prose
from reconciler.render.read_preview import read_finding
from reconciler.render.units import PER_BROKER, count, instant, limit

KIND: Final = "kquota-drift"
FORMAT: Final = 1

_ADVICE: Final = (
    "To write the declared values again: `kquota apply --correct-drift`. To keep what is live: declare it."
    " This issue is kept up to date, and closed when nothing drifts any more."
)


_OVERRIDE_ADVICE: Final = (
    "To write the expected values of expired overrides: `kquota override end --expired`. To keep a value: begin the"
    " override again with a new end, or declare the value."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftReport:
    """What ``kquota drift --format json`` said.

    Attributes:
        cluster_id: Which cluster.
        checked_at: When it was looked at, as text.
        findings: What differs, in document order; ignored pairs are not in it.
        expired_overrides: Overrides that have ended and whose value is still live.
    """

    cluster_id: str
    checked_at: str
    findings: tuple[Finding, ...]
    expired_overrides: tuple[ExpiredOverride, ...] = ()

    @property
    def rows(self) -> tuple[str, ...]:
        """Rows of the issue's table."""
        return (*map(_row, self.findings), *map(_expired_row, self.expired_overrides))

    @property
    def facts(self) -> str:
        """What decides whether the issue has to change."""
        drift = [
            f"{entity_text(one.entity)} {one.key} {one.applied!r} {one.live!r}"
            for one in self.findings
        ]
        expired = [
            f"{entity_text(one.override.entity)} {one.override.key} {one.expected!r} {one.live!r} expired override"
            for one in self.expired_overrides
        ]
        return "\n".join([*drift, *expired])


def read_drift(text: str, *, where: str) -> DriftReport:
    """The report of one cluster.

    Raises:
        ConfigError: It is cut off, edited, of several clusters, or no report of drift.
    """
    top = load(text, kind=KIND, format_version=FORMAT, where=where)
    fields = dict(top.pairs())
    for name in ("clusterId", "checkedAt", "drift"):
        if name not in fields:
            top.fail(f"an object with the field {name!r}")
    found = tuple(_finding(one) for one in fields["drift"].items())
    return DriftReport(
        cluster_id=fields["clusterId"].text(),
        checked_at=fields["checkedAt"].text(),
        findings=tuple(one for one in found if not one.ignored),
        expired_overrides=tuple(
            _expired_override(one) for one in fields["expiredOverrides"].items()
        )
        if "expiredOverrides" in fields
        else (),
    )


def _expired_override(reader: Reader) -> ExpiredOverride:
    row = reader.fields(
        "entity", "text", "key", "expected", "live", "until", "who", "reason", "document"
    )
    live = row["live"].quota_value()
    return ExpiredOverride(
        override=Override(
            entity=row["entity"].entity(),
            key=Key(row["key"].one_of({key.value: key for key in Key})),
            value=live,
            until=row["until"].instant(),
            who=row["who"].text(),
            reason=row["reason"].text(),
        ),
        expected=row["expected"].quota_value(),
        live=live,
        document=row["document"].text(),
    )


def _finding(reader: Reader) -> Finding:
    """One row; what an ignore rule acts on is in the report, and is nobody's incident."""
    ignored = dict(reader.pairs()).get("section")
    return read_finding(reader, "ignored" if ignored and ignored.value == "ignored" else "drift")


def issue_title(label: str, report: DriftReport) -> str:
    """The title, on one line; without numbers, so that it stays the same while the issue is open."""
    return f"Kafka quotas drifted: {escaped(label or report.cluster_id)}"


def issue_markdown(report: DriftReport, *, head: str, limit_characters: int, details: str) -> str:
    """The text of the issue.

    Args:
        report: What was found.
        head: Hidden lines that it begins with.
        limit_characters: Most characters of the whole text.
        details: A Markdown link to the run, or "".
    """
    opening = [
        head,
        f"**Cluster {markdown(report.cluster_id)}: {_summary(report)}.**",
        "",
        f"Looked at {prose(report.checked_at)}. {details}".rstrip(),
        "",
        "| entity | key | expected | | live | since | document | override |",
        "|-|-|-:|-|-:|-|-|-|",
    ]
    closing = [
        "",
        *([_OVERRIDE_ADVICE, ""] if report.expired_overrides else []),
        _ADVICE,
        "",
        f"<sub>{PER_BROKER}</sub>",
    ]
    return _fitted(opening, report.rows, closing, limit_characters)


def _summary(report: DriftReport) -> str:
    parts = [
        f"{count(number, noun)} {words}"
        for number, noun, words in (
            (len(report.findings), "live value", "not as applied last"),
            (len(report.expired_overrides), "override", "expired and still live"),
        )
        if number
    ]
    return ", ".join(parts)


def recovered_markdown(report: DriftReport, *, details: str) -> str:
    """What is said before the issue is closed."""
    said = f"No drift any more: at {prose(report.checked_at)} every value was as applied."
    return f"{said} {details}".rstrip() + "\n"


def _fitted(opening: list[str], table: Sequence[str], closing: list[str], most: int) -> str:
    room = most - sum(len(line) + 1 for line in [*opening, *closing]) - 60
    rows: list[str] = []
    for row in table:
        room -= len(row) + 1
        if room < 0:
            break
        rows.append(row)
    missing = len(table) - len(rows)
    more = ["", f"… and {count(missing, 'row')} more."] if missing else []
    return "\n".join([*opening, *rows, *more, *closing]) + "\n"


def _row(one: Finding) -> str:
    since = "" if one.since is None else instant(one.since)
    document = "" if one.owner is None else markdown(one.owner.document)
    return (
        f"| {markdown(entity_text(one.entity))} | {markdown(str(one.key))} | {prose(limit(one.key, one.applied))}"
        f" | → | {prose(limit(one.key, one.live))} | {prose(since)} | {document} | |"
    )


def _expired_row(one: ExpiredOverride) -> str:
    override = one.override
    who = f"ended; by {override.who}: {override.reason}"
    return (
        f"| {markdown(entity_text(override.entity))} | {markdown(str(override.key))}"
        f" | {prose(limit(override.key, one.expected))} | → | {prose(limit(override.key, one.live))}"
        f" | {prose(instant(override.until))} | {markdown(one.document)} | {markdown(who)} |"
    )
