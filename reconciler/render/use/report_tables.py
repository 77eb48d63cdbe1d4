"""A report of use as tables of plain cells, the common source of text, Markdown and HTML pages."""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from reconciler.render.sections import Section, TableForm, name, number, text
from reconciler.render.use.units import (
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
from reconciler.usage.impact.result_rows import (
    EvidenceNote,
    ImpactRow,
    RecommendationRow,
    TierBreach,
)
from reconciler.usage.reports.usage import (
    CapacityRow,
    NoisyRow,
    ResultOrigin,
    UsageReport,
    UsageRow,
)
from reconciler.usage.samples import QuotaType
from reconciler.usage.throttle_models import FigureBound

BOUNDS: Final[dict[FigureBound, str]] = {
    FigureBound.EXACT: "",
    FigureBound.AT_LEAST: "≥ ",
    FigureBound.AT_MOST: "≤ ",
    FigureBound.BETWEEN: "",
}
"""Prefix of a figure that is not exact."""


def sheets(report: UsageReport) -> tuple[Section, ...]:
    """Return all tables of a report with content, in display order."""
    origins, left_out, simulation = report.origins, report.left_out, report.simulation
    tables = [EVIDENCE.of(report.evidence), ORIGINS.of(origins, left_out.get("origins", 0))]
    if simulation is not None:
        impact = IMPACT.of(simulation.rows, simulation.left_out)
        policy = "Violations of the policy: see `kquota usage simulate`."
        tables += [_with_window_title(impact, origins, policy), BREACHES.of(simulation.breaches)]
    advice = RECOMMENDATIONS.of(report.recommendations, left_out.get("recommendation", 0))
    tables += [
        _with_window_title(advice, origins),
        USAGE.of(report.usage, left_out.get("usage_row", 0)),
        CAPACITY.of(report.capacity, left_out.get("capacity_row", 0)),
        NOISY.of(report.noisy, left_out.get("noisy_row", 0)),
    ]
    return tuple(table for table in tables if table.rows or table.left_out)


def _with_window_title(
    report_table: Section, origins: Sequence[ResultOrigin], description: str = ""
) -> Section:
    """Add the window to the title of a table whose rows come from the lake."""
    own_origins = [origin for origin in origins if origin.table == report_table.name]
    if not own_origins:
        return report_table
    windows = {(origin.from_ms, origin.to_ms) for origin in own_origins}
    ((begin, end), *further_windows) = sorted(windows)
    when = (
        "of several windows" if further_windows else f"{moment_text(begin)} to {moment_text(end)}"
    )
    is_other_window = any(origin.other_window for origin in own_origins)
    title = f"{report_table.title} ({when}{'; not the window of this report' if is_other_window else ''})"
    return replace(
        report_table,
        title=title,
        notes=(*report_table.notes, *filter(None, (description,))),
    )


def _signed(row: ImpactRow, figure: str, *, is_known: bool) -> str:
    return BOUNDS[row.bound] + figure if is_known else figure


def _throttled_then(row: ImpactRow) -> str:
    daily = between_per_day_text(row.after_throttled_ms, row.worst_throttled_ms, row.covered_ms)
    return _signed(row, daily, is_known=row.after_throttled_ms is not None)


def _worst_delay(row: ImpactRow) -> str:
    delay = between_text(row.after_max_delay_ms, row.worst_max_delay_ms)
    return _signed(row, delay, is_known=row.after_max_delay_ms is not None)


def present_sign(row: ImpactRow) -> str:
    """Return the sign of the forecast under the present limit, of which a row has the best case only."""
    is_interval = row.bound is FigureBound.BETWEEN and row.before_units is not None
    return BOUNDS[FigureBound.AT_LEAST] if is_interval else ""


def _throttled_now(row: ImpactRow) -> str:
    return present_sign(row) + per_day_text(row.before_throttled_ms, row.covered_ms)


def _over_timeout(row: ImpactRow) -> str:
    over_ms = row.after_over_timeout_ms
    is_interval = row.bound is FigureBound.BETWEEN  # a row has its best case only
    sign = BOUNDS[FigureBound.AT_LEAST if is_interval else row.bound]
    return length_text(over_ms) if over_ms is None else sign + length_text(over_ms)


def _sized_sign(row: RecommendationRow, figure: int | None) -> str:
    """Return the sign of a figure of sizing, which takes consumers for clients that get all of their limit."""
    is_best_case = row.quota_type is QuotaType.FETCH and figure is not None
    return BOUNDS[FigureBound.AT_LEAST] if is_best_case else ""


def _units_or_dash(kind: QuotaType, units: int | None) -> str:
    """Format a number that may be unknown; for a limit, ``None`` would mean unlimited."""
    return "-" if units is None else units_text(kind, units)


def _beside(length_ms: int, other_ms: int) -> str:
    return length_text(length_ms, unlike=other_ms)


def _counts(evidence: EvidenceNote) -> str:
    return ", ".join(f"{state} {amount:,}" for state, amount in sorted(evidence.counts.items()))


_RESULTS: Final = {"impact_row": "what-if", "recommendation": "recommendations"}

EVIDENCE: Final[TableForm[EvidenceNote]] = TableForm(
    "evidence",
    "Evidence",
    "What was recorded, and how much of the time it covers.",
    (
        name("cluster", lambda note: note.cluster_id),
        text("from", lambda note: moment_text(note.from_ms)),
        text("to", lambda note: moment_text(note.to_ms)),
        number("read every", lambda note: length_text(note.step_ms)),
        number("covers", lambda note: share_text(note.coverage_ppm)),
        name("state", lambda note: note.stale or "; ".join(note.partial) or "whole"),
        text("counted", _counts),
    ),
)
"""The evidence of all other tables."""

ORIGINS: Final[TableForm[ResultOrigin]] = TableForm(
    "origins",
    "Results from the lake",
    "The newest results of `kquota usage simulate` and `kquota usage recommend`. They have their own window and limits.",
    (
        name("cluster", lambda origin: origin.cluster_id),
        text("result", lambda origin: _RESULTS.get(origin.table, origin.table)),
        text("window from", lambda origin: moment_text(origin.from_ms)),
        text("to", lambda origin: moment_text(origin.to_ms)),
        text("made", lambda origin: moment_text(origin.made_ms)),
        name("limits as of snapshot", lambda origin: origin.snapshot_id),
        text(
            "window",
            lambda origin: "another than this report's" if origin.other_window else "the report's",
        ),
    ),
)
"""The origins of results that other jobs committed."""

IMPACT: Final[TableForm[ImpactRow]] = TableForm(
    "impact_row",
    "What the change would have done",
    "Throttled time per day of evidence on one broker; not summed over brokers, because a limit applies on each broker.",
    (
        name("who", lambda row: bucket_text(row.bucket, any_name=row.any_name)),
        name("cluster", lambda row: row.cluster_id),
        name("broker", lambda row: row.broker_id or "-"),
        text("what", lambda row: type_text(row.quota_type)),
        number("limit now", lambda row: units_text(row.quota_type, row.before_units)),
        number("limit then", lambda row: units_text(row.quota_type, row.after_units)),
        text("verdict", lambda row: row.verdict.value),
        number("throttled now", _throttled_now),
        number("throttled then", _throttled_then),
        number("worst delay", _worst_delay),
        number("over 120 s", _over_timeout),
        name("why", lambda row: row.why),
    ),
)
"""One row per bucket and broker, worst first."""

BREACHES: Final[TableForm[TierBreach]] = TableForm(
    "breaches",
    "Violations of the policy",
    "Results that exceed the limits of the client's tier.",
    (
        name("who", lambda refused: bucket_text(refused.row.bucket, any_name=refused.row.any_name)),
        name("cluster", lambda refused: refused.row.cluster_id),
        name("broker", lambda refused: refused.row.broker_id),
        name("tier", lambda refused: refused.tier),
        text("figure", lambda refused: refused.breach.what),
        number(
            "found", lambda refused: _beside(refused.breach.found_ms, refused.breach.allowed_ms)
        ),
        number(
            "allowed", lambda refused: _beside(refused.breach.allowed_ms, refused.breach.found_ms)
        ),
    ),
)

RECOMMENDATIONS: Final[TableForm[RecommendationRow]] = TableForm(
    "recommendation",
    "Recommended limits",
    "Sized so that the tier's promise is kept on every broker; the test figures are of the last week, which sizing did not see."
    " Figures of consumers are the best case (≥): large fetches get less than the limit.",
    (
        name("who", lambda row: bucket_text(row.bucket)),
        name("cluster", lambda row: row.cluster_id),
        text("what", lambda row: type_text(row.quota_type)),
        name("tier", lambda row: row.tier),
        text("advice", lambda row: row.advice.value),
        number("now", lambda row: units_text(row.quota_type, row.current_units)),
        number("target", lambda row: _units_or_dash(row.quota_type, row.target_units)),
        number("lower", lambda row: _units_or_dash(row.quota_type, row.lower_units)),
        number("upper", lambda row: _units_or_dash(row.quota_type, row.upper_units)),
        number(
            "throttled in training",
            lambda row: _sized_sign(row, row.train_share_ppm) + share_text(row.train_share_ppm),
        ),
        number(
            "throttled in test",
            lambda row: _sized_sign(row, row.test_share_ppm) + share_text(row.test_share_ppm),
        ),
        number(
            "worst delay in test",
            lambda row: (
                _sized_sign(row, row.test_max_delay_ms) + length_text(row.test_max_delay_ms)
            ),
        ),
        number("censored", lambda row: share_text(row.censored_ppm)),
        text("rules", lambda row: ", ".join(row.rules)),
    ),
)

USAGE: Final[TableForm[UsageRow]] = TableForm(
    "usage_row",
    "Use against limits",
    "Percentiles of time on one broker. A limit is shared by all clients in its bucket.",
    (
        name("who", lambda row: bucket_text(row.bucket)),
        name("cluster", lambda row: row.cluster_id),
        name("broker", lambda row: row.broker_id or "-"),
        text("what", lambda row: type_text(row.quota_type)),
        number("limit", lambda row: units_text(row.quota_type, row.limit_units)),
        name("limit of", lambda row: source_text(row.source_entity)),
        number("half the time", lambda row: _units_or_dash(row.quota_type, row.p50_units)),
        number("95 %", lambda row: _units_or_dash(row.quota_type, row.p95_units)),
        number("99 %", lambda row: _units_or_dash(row.quota_type, row.p99_units)),
        number("most", lambda row: units_text(row.quota_type, row.max_rate_units)),
        number("throttled", lambda row: per_day_text(row.throttled_ms, row.covered_ms)),
        text("state", lambda row: row.state.value.replace("_", " ")),
    ),
)

CAPACITY: Final[TableForm[CapacityRow]] = TableForm(
    "capacity_row",
    "Capacity of brokers",
    "Committed is the sum of all limits divided by the budget; more than 100 % is normal. Coincident is the traffic actually served at one time.",
    (
        name("cluster", lambda row: row.cluster_id),
        name("broker", lambda row: row.broker_id),
        text("way", lambda row: row.direction.value),
        number("budget", lambda row: _units_or_dash(QuotaType.PRODUCE, row.budget_units)),
        number("committed", lambda row: share_text(row.committed_ppm)),
        number("coincident", lambda row: share_text(row.coincident_ppm)),
        number("over budget", lambda row: per_day_text(row.overload_ms, row.covered_ms)),
        number("not attributed", lambda row: share_text(row.unattributed_ppm)),
        text("basis", lambda row: row.basis.value.replace("_", " ")),
    ),
)

NOISY: Final[TableForm[NoisyRow]] = TableForm(
    "noisy_row",
    "Above the fair share",
    "Intervals of five minutes in which a broker was over budget, and clients that used more than their share by weight of limits.",
    (
        name("who", lambda row: bucket_text(row.bucket)),
        name("cluster", lambda row: row.cluster_id),
        name("broker", lambda row: row.broker_id),
        text("what", lambda row: type_text(row.quota_type)),
        text("when", lambda row: moment_text(row.bucket_ms)),
        number("budget", lambda row: units_text(row.quota_type, row.budget_units)),
        number("used", lambda row: units_text(row.quota_type, row.rate_units)),
        number("fair share", lambda row: units_text(row.quota_type, row.fair_units)),
        number("beyond it", lambda row: units_text(row.quota_type, row.excess_units)),
    ),
)
