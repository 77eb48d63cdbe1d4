"""What a report of use says, as sheets of plain cells: one description, from which text, Markdown and pages are made."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from reconciler.render.units import count
from reconciler.render.use_words import (
    bucket_text,
    length_text,
    moment_text,
    per_day_text,
    share_text,
    source_text,
    type_text,
    units_text,
)
from reconciler.usage.censoring import Bound
from reconciler.usage.findings import Evidence, ImpactRow, RecommendationRow, Simulation
from reconciler.usage.reports import CapacityRow, NoisyRow, Origin, UsageReport, UsageRow
from reconciler.usage.samples import QuotaType

BOUNDS: Final[dict[Bound, str]] = {Bound.EXACT: "", Bound.AT_LEAST: "≥ ", Bound.AT_MOST: "≤ "}
"""What stands before a figure that is not exact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """One table for people.

    Attributes:
        name: Of the table in the lake; also an anchor.
        title: Its heading.
        says: What it shows, one or two sentences.
        heads: Of the columns.
        rows: Cells as plain text with names quoted; not escaped for any format.
        names: Columns that hold foreign names.
        numbers: Columns that stand at the right.
        left_out: How many rows are only counted.
    """

    name: str
    title: str
    says: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    names: tuple[int, ...] = (0,)
    numbers: tuple[int, ...] = ()
    left_out: int = 0

    def __post_init__(self) -> None:
        if any(len(row) != len(self.heads) for row in self.rows):
            raise ValueError(f"a row of {self.name} has not as many cells as there are heads")

    @property
    def more(self) -> str:
        """What is said of the rows that are left out; "" = none is."""
        return f"and {count(self.left_out, 'more row')}, in the lake" if self.left_out else ""


def sheets(report: UsageReport) -> tuple[Sheet, ...]:
    """All parts of a report that hold anything, in the order in which they are read."""
    found = [evidence_sheet(report.evidence)]
    more = report.left_out
    if report.origins:
        found.append(origin_sheet(report.origins, more.get("origins", 0)))
    if report.simulation is not None:
        shown = impact_sheet(report.simulation)
        found.append(_taken(shown, report.origins, "What the policy refuses is told by `kquota spark simulate`, not here."))  # fmt: skip
        found.append(breach_sheet(report.simulation))
    advice = recommendation_sheet(report.recommendations, more.get("recommendation", 0))
    found += [
        _taken(advice, report.origins),
        usage_sheet(report.usage, more.get("usage_row", 0)),
        capacity_sheet(report.capacity, more.get("capacity_row", 0)),
        noisy_sheet(report.noisy, more.get("noisy_row", 0)),
    ]
    return tuple(one for one in found if one.rows or one.left_out)


def evidence_sheet(evidence: Sequence[Evidence]) -> Sheet:
    """On what everything else rests."""
    return Sheet(
        name="evidence",
        title="Evidence",
        says="What was recorded, and how much of the time it covers.",
        heads=("cluster", "from", "to", "read every", "covers", "state", "counted"),
        rows=tuple(
            (
                one.cluster_id,
                moment_text(one.from_ms),
                moment_text(one.to_ms),
                length_text(one.step_ms),
                share_text(one.coverage_ppm),
                one.stale or "; ".join(one.partial) or "whole",
                ", ".join(f"{name} {amount:,}" for name, amount in sorted(one.counts.items())),
            )
            for one in evidence
        ),
        names=(0, 5),
        numbers=(3, 4),
    )


def origin_sheet(origins: Sequence[Origin], left_out: int = 0) -> Sheet:
    """Where what a report did not make itself comes from."""
    return Sheet(
        name="origins",
        title="Taken from the lake",
        says="The newest results that `kquota spark simulate` and `kquota spark recommend` left. They speak of their own window, and of the limits of then.",
        heads=("cluster", "result", "window from", "to", "made", "limits as of look", "window"),
        rows=tuple(
            (
                one.cluster_id,
                _RESULTS.get(one.table, one.table),
                _moment(one.from_ms),
                _moment(one.to_ms),
                moment_text(one.made_ms),
                one.snapshot_id or "-",
                "another than this report's" if one.other_window else "the report's",
            )
            for one in origins
        ),
        names=(0, 5),
        left_out=left_out,
    )


_RESULTS: Final = {"impact_row": "what-if", "recommendation": "recommendations"}


def _moment(at_ms: int | None) -> str:
    return "-" if at_ms is None else moment_text(at_ms)


def _taken(sheet: Sheet, origins: Sequence[Origin], says: str = "") -> Sheet:
    """A sheet whose rows were taken from the lake: the title says of which window."""
    mine = [one for one in origins if one.table == sheet.name]
    if not mine:
        return sheet
    windows = {(one.from_ms, one.to_ms) for one in mine}
    ((begin, end), *others) = sorted(windows, key=str)
    when = "of several windows" if others else f"{_moment(begin)} to {_moment(end)}"
    other = any(one.other_window for one in mine)
    title = f"{sheet.title} ({when}{'; not the window of this report' if other else ''})"
    return replace(sheet, title=title, says=" ".join(filter(None, (sheet.says, says))))


def impact_sheet(found: Simulation) -> Sheet:
    """What a change would have done, bucket by bucket and broker by broker, worst first."""
    return Sheet(
        name="impact_row",
        title="What the change would have done",
        says="Throttled time for each day of evidence on one broker. Never a sum over brokers: a limit holds on each of them.",
        heads=(
            "who", "cluster", "broker", "what", "limit now", "limit then", "verdict", "throttled now",
            "throttled then", "worst delay", "over 120 s", "why",
        ),
        rows=tuple(map(_impact_cells, found.rows)),
        names=(0, 1, 2, 11),
        numbers=(4, 5, 7, 8, 9, 10),
        left_out=found.left_out,
    )  # fmt: skip


def _impact_cells(one: ImpactRow) -> tuple[str, ...]:
    sign = BOUNDS[one.bound]
    daily = per_day_text(one.after_throttled_ms, one.covered_ms)
    return (
        bucket_text(one.bucket, any_name=one.any_name),
        one.cluster_id,
        one.broker_id or "-",
        type_text(one.quota_type),
        units_text(one.quota_type, one.before_units),
        units_text(one.quota_type, one.after_units),
        one.verdict.value,
        per_day_text(one.before_throttled_ms, one.covered_ms),
        daily if one.after_throttled_ms is None else sign + daily,
        _signed(sign, one.after_max_delay_ms),
        _signed(sign, one.after_over_timeout_ms),
        one.why,
    )


def _signed(sign: str, length_ms: int | None) -> str:
    return length_text(length_ms) if length_ms is None else sign + length_text(length_ms)


def breach_sheet(found: Simulation) -> Sheet:
    """What the policy refuses."""
    return Sheet(
        name="breaches",
        title="What the policy refuses",
        says="Figures beyond what the tier of the client tolerates.",
        heads=("who", "cluster", "broker", "tier", "figure", "found", "allowed"),
        rows=tuple(
            (
                bucket_text(one.row.bucket, any_name=one.row.any_name),
                one.row.cluster_id,
                one.row.broker_id,
                one.tier,
                one.breach.what,
                length_text(one.breach.found_ms, unlike=one.breach.allowed_ms),
                length_text(one.breach.allowed_ms, unlike=one.breach.found_ms),
            )
            for one in found.breaches
        ),
        names=(0, 1, 2, 3),
        numbers=(5, 6),
    )


def recommendation_sheet(rows: Sequence[RecommendationRow], left_out: int = 0) -> Sheet:
    """Limits with their proof."""
    return Sheet(
        name="recommendation",
        title="Recommended limits",
        says="Sized so that the tier's promise is kept on every broker; the test figures are of the last week, which sizing did not see.",
        heads=(
            "who", "cluster", "what", "tier", "advice", "now", "target", "lower", "upper", "throttled in training",
            "throttled in test", "worst delay in test", "censored", "rules",
        ),
        rows=tuple(
            (
                bucket_text(one.bucket),
                one.cluster_id,
                type_text(one.quota_type),
                one.tier,
                one.advice.value,
                units_text(one.quota_type, one.current_units),
                _known(one.quota_type, one.target_units),
                _known(one.quota_type, one.lower_units),
                _known(one.quota_type, one.upper_units),
                share_text(one.train_share_ppm),
                share_text(one.test_share_ppm),
                length_text(one.test_max_delay_ms),
                share_text(one.censored_ppm),
                ", ".join(one.rules),
            )
            for one in rows
        ),
        names=(0, 1, 3),
        numbers=(5, 6, 7, 8, 9, 10, 11, 12),
        left_out=left_out,
    )  # fmt: skip


def _known(kind: QuotaType, units: int | None) -> str:
    """A number that may not be known, unlike a limit, whose absence means none."""
    return "-" if units is None else units_text(kind, units)


def usage_sheet(rows: Sequence[UsageRow], left_out: int = 0) -> Sheet:
    """Use against limits."""
    return Sheet(
        name="usage_row",
        title="Use against limits",
        says="Percentiles of time on one broker. A limit is shared by everybody in its bucket.",
        heads=(
            "who", "cluster", "broker", "what", "limit", "whose", "half the time", "95 %", "99 %", "most", "throttled",
            "state",
        ),
        rows=tuple(
            (
                bucket_text(one.bucket),
                one.cluster_id,
                one.broker_id or "-",
                type_text(one.quota_type),
                units_text(one.quota_type, one.limit_units),
                source_text(one.source_entity),
                _known(one.quota_type, one.p50_units),
                _known(one.quota_type, one.p95_units),
                _known(one.quota_type, one.p99_units),
                units_text(one.quota_type, one.max_rate_units),
                per_day_text(one.throttled_ms, one.covered_ms),
                one.state.value.replace("_", " "),
            )
            for one in rows
        ),
        names=(0, 1, 2, 5),
        numbers=(4, 6, 7, 8, 9, 10),
        left_out=left_out,
    )  # fmt: skip


def capacity_sheet(rows: Sequence[CapacityRow], left_out: int = 0) -> Sheet:
    """What brokers can give."""
    return Sheet(
        name="capacity_row",
        title="Capacity of brokers",
        says="Committed is the sum of all limits over the budget: above 100 % is normal. Coincident is what was really served at one time.",
        heads=(
            "cluster", "broker", "way", "budget", "committed", "coincident", "over budget", "not attributed", "basis",
        ),
        rows=tuple(
            (
                one.cluster_id,
                one.broker_id,
                one.direction.value,
                _known(QuotaType.PRODUCE, one.budget_units),
                share_text(one.committed_ppm),
                share_text(one.coincident_ppm),
                per_day_text(one.overload_ms, one.covered_ms),
                share_text(one.unattributed_ppm),
                one.basis.value.replace("_", " "),
            )
            for one in rows
        ),
        names=(0, 1),
        numbers=(3, 4, 5, 6, 7),
        left_out=left_out,
    )  # fmt: skip


def noisy_sheet(rows: Sequence[NoisyRow], left_out: int = 0) -> Sheet:
    """Who went beyond a fair share where a broker was over its budget."""
    return Sheet(
        name="noisy_row",
        title="Beyond a fair share",
        says="Five minutes in which a broker was over its budget, and who used more than its share by weight of limits. Shares, not blame.",
        heads=(
            "who",
            "cluster",
            "broker",
            "what",
            "when",
            "budget",
            "used",
            "fair share",
            "beyond it",
        ),
        rows=tuple(
            (
                bucket_text(one.bucket),
                one.cluster_id,
                one.broker_id,
                type_text(one.quota_type),
                moment_text(one.bucket_ms),
                units_text(one.quota_type, one.budget_units),
                units_text(one.quota_type, one.rate_units),
                units_text(one.quota_type, one.fair_units),
                units_text(one.quota_type, one.excess_units),
            )
            for one in rows
        ),
        names=(0, 1, 2),
        numbers=(5, 6, 7, 8),
        left_out=left_out,
    )
