"""What a report of use says, as sheets of plain cells: one description, from which text, Markdown and pages are made."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from reconciler.evidence.render.units import (
    between_per_day_text,
    between_text,
    bucket_text,
    length_text,
    moment_text,
    per_day_text,
    share_text,
    source_text,
    type_text,
    units_text,
)
from reconciler.render.units import count
from reconciler.usage.demand_bounds import FigureBound
from reconciler.usage.impact.result_rows import (
    EvidenceNote,
    ImpactRow,
    RecommendationRow,
    Simulation,
)
from reconciler.usage.reports.usage import (
    CapacityRow,
    NoisyRow,
    ResultOrigin,
    UsageReport,
    UsageRow,
)
from reconciler.usage.samples import QuotaType

BOUNDS: Final[dict[FigureBound, str]] = {
    FigureBound.EXACT: "",
    FigureBound.AT_LEAST: "≥ ",
    FigureBound.AT_MOST: "≤ ",
    FigureBound.BETWEEN: "",
}
"""What stands before a figure that is not exact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportTable:
    """One table for people.

    Attributes:
        name: Of the table in the lake; also an anchor.
        title: Its heading.
        description: What it shows, one or two sentences.
        heads: Of the columns.
        rows: Cells as plain text with names quoted; not escaped for any format.
        names: Columns that hold foreign names.
        numbers: Columns that stand at the right.
        left_out: How many rows are only counted.
    """

    name: str
    title: str
    description: str
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


def sheets(report: UsageReport) -> tuple[ReportTable, ...]:
    """All parts of a report that hold anything, in the order in which they are read."""
    tables = [evidence_sheet(report.evidence)]
    left_out = report.left_out
    if report.origins:
        tables.append(origin_sheet(report.origins, left_out.get("origins", 0)))
    if report.simulation is not None:
        impact_table = impact_sheet(report.simulation)
        tables.append(
            _with_window_title(
                impact_table,
                report.origins,
                "What the policy refuses: see `kquota spark simulate`.",
            )
        )
        tables.append(breach_sheet(report.simulation))
    advice = recommendation_sheet(report.recommendations, left_out.get("recommendation", 0))
    tables += [
        _with_window_title(advice, report.origins),
        usage_sheet(report.usage, left_out.get("usage_row", 0)),
        capacity_sheet(report.capacity, left_out.get("capacity_row", 0)),
        noisy_sheet(report.noisy, left_out.get("noisy_row", 0)),
    ]
    return tuple(
        report_table for report_table in tables if report_table.rows or report_table.left_out
    )


def evidence_sheet(evidence: Sequence[EvidenceNote]) -> ReportTable:
    """On what everything else rests."""
    return ReportTable(
        name="evidence",
        title="Evidence",
        description="What was recorded, and how much of the time it covers.",
        heads=("cluster", "from", "to", "read every", "covers", "state", "counted"),
        rows=tuple(
            (
                cluster_evidence.cluster_id,
                moment_text(cluster_evidence.from_ms),
                moment_text(cluster_evidence.to_ms),
                length_text(cluster_evidence.step_ms),
                share_text(cluster_evidence.coverage_ppm),
                cluster_evidence.stale or "; ".join(cluster_evidence.partial) or "whole",
                ", ".join(
                    f"{name} {amount:,}" for name, amount in sorted(cluster_evidence.counts.items())
                ),
            )
            for cluster_evidence in evidence
        ),
        names=(0, 5),
        numbers=(3, 4),
    )


def origin_sheet(origins: Sequence[ResultOrigin], left_out: int = 0) -> ReportTable:
    """Where what a report did not make itself comes from."""
    return ReportTable(
        name="origins",
        title="Taken from the lake",
        description="The newest results that `kquota spark simulate` and `kquota spark recommend` left. They speak of their own window, and of the limits of then.",
        heads=("cluster", "result", "window from", "to", "made", "limits as of look", "window"),
        rows=tuple(
            (
                origin.cluster_id,
                _RESULTS.get(origin.table, origin.table),
                _moment(origin.from_ms),
                _moment(origin.to_ms),
                moment_text(origin.made_ms),
                origin.snapshot_id or "-",
                "another than this report's" if origin.other_window else "the report's",
            )
            for origin in origins
        ),
        names=(0, 5),
        left_out=left_out,
    )


_RESULTS: Final = {"impact_row": "what-if", "recommendation": "recommendations"}


def _moment(at_ms: int | None) -> str:
    return "-" if at_ms is None else moment_text(at_ms)


def _with_window_title(
    report_table: ReportTable, origins: Sequence[ResultOrigin], description: str = ""
) -> ReportTable:
    """A sheet whose rows were taken from the lake: the title says of which window."""
    own_origins = [origin for origin in origins if origin.table == report_table.name]
    if not own_origins:
        return report_table
    windows = {(origin.from_ms, origin.to_ms) for origin in own_origins}
    ((begin, end), *further_windows) = sorted(windows, key=str)
    when = "of several windows" if further_windows else f"{_moment(begin)} to {_moment(end)}"
    is_other_window = any(origin.other_window for origin in own_origins)
    title = f"{report_table.title} ({when}{'; not the window of this report' if is_other_window else ''})"
    return replace(
        report_table,
        title=title,
        description=" ".join(filter(None, (report_table.description, description))),
    )


def impact_sheet(simulation: Simulation) -> ReportTable:
    """What a change would have done, bucket by bucket and broker by broker, worst first."""
    return ReportTable(
        name="impact_row",
        title="What the change would have done",
        description="Throttled time for each day of evidence on one broker. Never a sum over brokers: a limit holds on each of them.",
        heads=(
            "who",
            "cluster",
            "broker",
            "what",
            "limit now",
            "limit then",
            "verdict",
            "throttled now",
            "throttled then",
            "worst delay",
            "over 120 s",
            "why",
        ),
        rows=tuple(map(_impact_cells, simulation.rows)),
        names=(0, 1, 2, 11),
        numbers=(4, 5, 7, 8, 9, 10),
        left_out=simulation.left_out,
    )


def _impact_cells(row: ImpactRow) -> tuple[str, ...]:
    sign = BOUNDS[row.bound]
    daily = between_per_day_text(row.after_throttled_ms, row.worst_throttled_ms, row.covered_ms)
    delay = between_text(row.after_max_delay_ms, row.worst_max_delay_ms)
    return (
        bucket_text(row.bucket, any_name=row.any_name),
        row.cluster_id,
        row.broker_id or "-",
        type_text(row.quota_type),
        units_text(row.quota_type, row.before_units),
        units_text(row.quota_type, row.after_units),
        row.verdict.value,
        per_day_text(row.before_throttled_ms, row.covered_ms),
        daily if row.after_throttled_ms is None else sign + daily,
        delay if row.after_max_delay_ms is None else sign + delay,
        _signed(sign, row.after_over_timeout_ms),
        row.why,
    )


def _signed(sign: str, length_ms: int | None) -> str:
    return length_text(length_ms) if length_ms is None else sign + length_text(length_ms)


def breach_sheet(simulation: Simulation) -> ReportTable:
    """What the policy refuses."""
    return ReportTable(
        name="breaches",
        title="What the policy refuses",
        description="Figures beyond what the tier of the client tolerates.",
        heads=("who", "cluster", "broker", "tier", "figure", "found", "allowed"),
        rows=tuple(
            (
                bucket_text(breach.row.bucket, any_name=breach.row.any_name),
                breach.row.cluster_id,
                breach.row.broker_id,
                breach.tier,
                breach.breach.what,
                length_text(breach.breach.found_ms, unlike=breach.breach.allowed_ms),
                length_text(breach.breach.allowed_ms, unlike=breach.breach.found_ms),
            )
            for breach in simulation.breaches
        ),
        names=(0, 1, 2, 3),
        numbers=(5, 6),
    )


def recommendation_sheet(rows: Sequence[RecommendationRow], left_out: int = 0) -> ReportTable:
    """Limits with their proof."""
    return ReportTable(
        name="recommendation",
        title="Recommended limits",
        description="Sized so that the tier's promise is kept on every broker; the test figures are of the last week, which sizing did not see.",
        heads=(
            "who",
            "cluster",
            "what",
            "tier",
            "advice",
            "now",
            "target",
            "lower",
            "upper",
            "throttled in training",
            "throttled in test",
            "worst delay in test",
            "censored",
            "rules",
        ),
        rows=tuple(
            (
                bucket_text(row.bucket),
                row.cluster_id,
                type_text(row.quota_type),
                row.tier,
                row.advice.value,
                units_text(row.quota_type, row.current_units),
                _units_or_dash(row.quota_type, row.target_units),
                _units_or_dash(row.quota_type, row.lower_units),
                _units_or_dash(row.quota_type, row.upper_units),
                share_text(row.train_share_ppm),
                share_text(row.test_share_ppm),
                length_text(row.test_max_delay_ms),
                share_text(row.censored_ppm),
                ", ".join(row.rules),
            )
            for row in rows
        ),
        names=(0, 1, 3),
        numbers=(5, 6, 7, 8, 9, 10, 11, 12),
        left_out=left_out,
    )


def _units_or_dash(kind: QuotaType, units: int | None) -> str:
    """A number that may not be known, unlike a limit, whose absence means none."""
    return "-" if units is None else units_text(kind, units)


def usage_sheet(rows: Sequence[UsageRow], left_out: int = 0) -> ReportTable:
    """Use against limits."""
    return ReportTable(
        name="usage_row",
        title="Use against limits",
        description="Percentiles of time on one broker. A limit is shared by all clients in its bucket.",
        heads=(
            "who",
            "cluster",
            "broker",
            "what",
            "limit",
            "whose",
            "half the time",
            "95 %",
            "99 %",
            "most",
            "throttled",
            "state",
        ),
        rows=tuple(
            (
                bucket_text(row.bucket),
                row.cluster_id,
                row.broker_id or "-",
                type_text(row.quota_type),
                units_text(row.quota_type, row.limit_units),
                source_text(row.source_entity),
                _units_or_dash(row.quota_type, row.p50_units),
                _units_or_dash(row.quota_type, row.p95_units),
                _units_or_dash(row.quota_type, row.p99_units),
                units_text(row.quota_type, row.max_rate_units),
                per_day_text(row.throttled_ms, row.covered_ms),
                row.state.value.replace("_", " "),
            )
            for row in rows
        ),
        names=(0, 1, 2, 5),
        numbers=(4, 6, 7, 8, 9, 10),
        left_out=left_out,
    )


def capacity_sheet(rows: Sequence[CapacityRow], left_out: int = 0) -> ReportTable:
    """What brokers can give."""
    return ReportTable(
        name="capacity_row",
        title="Capacity of brokers",
        description="Committed is the sum of all limits over the budget: above 100 % is normal. Coincident is what was really served at one time.",
        heads=(
            "cluster",
            "broker",
            "way",
            "budget",
            "committed",
            "coincident",
            "over budget",
            "not attributed",
            "basis",
        ),
        rows=tuple(
            (
                row.cluster_id,
                row.broker_id,
                row.direction.value,
                _units_or_dash(QuotaType.PRODUCE, row.budget_units),
                share_text(row.committed_ppm),
                share_text(row.coincident_ppm),
                per_day_text(row.overload_ms, row.covered_ms),
                share_text(row.unattributed_ppm),
                row.basis.value.replace("_", " "),
            )
            for row in rows
        ),
        names=(0, 1),
        numbers=(3, 4, 5, 6, 7),
        left_out=left_out,
    )


def noisy_sheet(rows: Sequence[NoisyRow], left_out: int = 0) -> ReportTable:
    """Who went beyond a fair share where a broker was over its budget."""
    return ReportTable(
        name="noisy_row",
        title="Beyond a fair share",
        description="Five minutes in which a broker was over its budget, and who used more than its share by weight of limits. Shares, not blame.",
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
                bucket_text(row.bucket),
                row.cluster_id,
                row.broker_id,
                type_text(row.quota_type),
                moment_text(row.bucket_ms),
                units_text(row.quota_type, row.budget_units),
                units_text(row.quota_type, row.rate_units),
                units_text(row.quota_type, row.fair_units),
                units_text(row.quota_type, row.excess_units),
            )
            for row in rows
        ),
        names=(0, 1, 2),
        numbers=(5, 6, 7, 8),
        left_out=left_out,
    )
