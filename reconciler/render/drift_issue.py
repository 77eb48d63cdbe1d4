"""Drift as the text of an issue: read from the JSON of ``kquota drift``, told in a table that fits.

Ages would change with every look; an issue says when something was first seen and when it was looked at, so that its
text changes only with the facts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from reconciler.quota.change import Finding
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


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftReport:
    """What ``kquota drift --format json`` said.

    Attributes:
        cluster_id: Which cluster.
        checked_at: When it was looked at, as text.
        findings: What differs, in document order; ignored pairs are not in it.
    """

    cluster_id: str
    checked_at: str
    findings: tuple[Finding, ...]

    @property
    def facts(self) -> str:
        """What decides whether there is something new to tell."""
        return "\n".join(
            f"{entity_text(one.entity)} {one.key} {one.applied!r} {one.live!r}"
            for one in self.findings
        )


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
    many = count(len(report.findings), "live value")
    opening = [
        head,
        f"**Cluster {markdown(report.cluster_id)}: {many} not as applied last.**",
        "",
        f"Looked at {prose(report.checked_at)}. {details}".rstrip(),
        "",
        "| entity | key | applied | | live | first seen | document |",
        "|-|-|-:|-|-:|-|-|",
    ]
    closing = [
        "",
        _ADVICE,
        "",
        f"<sub>{PER_BROKER}</sub>",
    ]
    return _fitted(opening, report.findings, closing, limit_characters)


def recovered_markdown(report: DriftReport, *, details: str) -> str:
    """What is said before the issue is closed."""
    said = f"No drift any more: at {prose(report.checked_at)} every value was as applied."
    return f"{said} {details}".rstrip() + "\n"


def _fitted(opening: list[str], found: Sequence[Finding], closing: list[str], most: int) -> str:
    room = most - sum(len(line) + 1 for line in [*opening, *closing]) - 60
    rows: list[str] = []
    for one in found:
        row = _row(one)
        room -= len(row) + 1
        if room < 0:
            break
        rows.append(row)
    missing = len(found) - len(rows)
    more = ["", f"… and {count(missing, 'row')} more."] if missing else []
    return "\n".join([*opening, *rows, *more, *closing]) + "\n"


def _row(one: Finding) -> str:
    since = "" if one.since is None else instant(one.since)
    document = "" if one.owner is None else markdown(one.owner.document)
    return (
        f"| {markdown(entity_text(one.entity))} | {markdown(str(one.key))} | {prose(limit(one.key, one.applied))}"
        f" | → | {prose(limit(one.key, one.live))} | {prose(since)} | {document} |"
    )
