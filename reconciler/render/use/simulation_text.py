"""A simulation as text: one sentence per tenant on the effect of the new limit, and how certain it is."""

from typing import Final

from reconciler.base.escaping import quoted
from reconciler.quota.entity import read_canonical
from reconciler.render.recorded_use import RecordedUse, ToleranceViolation, UseRow
from reconciler.render.units import age, count
from reconciler.render.use.units import (
    SHORT_MS,
    between_per_day_text,
    between_text,
    bucket_text,
    length_text,
    moment_text,
    per_day_text,
    share_text,
    type_text,
    units_text,
)
from reconciler.usage.impact.result_rows import EvidenceNote, ImpactRow, Simulation, TierBreach
from reconciler.usage.impact.verdict import ImpactVerdict
from reconciler.usage.impact.what_if import TenantImpact, tenants
from reconciler.usage.samples import DAY_MS, KEY_OF, MILLION, QuotaType, ThrottleModel
from reconciler.usage.throttle_models import FigureBound, LimitMove, move

_AT_LEAST: Final = {
    FigureBound.EXACT: "",
    FigureBound.AT_LEAST: "at least ",
    FigureBound.AT_MOST: "at most ",
    FigureBound.BETWEEN: "",
}
_DOES: Final = {
    ThrottleModel.BACKLOG: "throttled",
    ThrottleModel.TOKENS: "throttled",
    ThrottleModel.REJECTED: "connections refused",
    ThrottleModel.APPROXIMATE: "over the limit, which delays each request by up to a second,",
}
_DOES_NOT: Final = {
    ThrottleModel.BACKLOG: "not throttled",
    ThrottleModel.TOKENS: "not throttled",
    ThrottleModel.REJECTED: "no connection refused",
    ThrottleModel.APPROXIMATE: "not over the limit",
}
LOSERS: Final = frozenset({QuotaType.PRODUCE})
"""Types whose delays lose records: a producer drops a record after ``delivery.timeout.ms``. Fetches and controller requests wait."""

_AT_LEAST_SAYS: Final = "Held back: clients at their limit recorded no more than it allowed. A tighter limit throttles at least as much; the exact figure is unknown."
_BLIND_SAYS: Final = {
    ImpactVerdict.NOT_IDENTIFIABLE: "Unknown: the change regroups clients that were recorded together, so no value can be computed.",
    ImpactVerdict.NO_DATA: 'No data: there is no recorded use; this does not mean "no impact".',
}
MOST_COUNTS: Final = 6
"""Maximum number of evidence counts to show, the largest first; the JSON plan has all."""

_MARKS: Final = {
    ImpactVerdict.WORSE: "!",
    ImpactVerdict.NOT_IDENTIFIABLE: "?",
    ImpactVerdict.NO_DATA: "?",
}


def recorded_of(simulation: Simulation, *, at: float) -> RecordedUse:
    """Render the section of recorded use.

    Args:
        at: Time of the plan in seconds since the epoch; the age of the evidence refers to it.
    """
    groups = tenants(simulation.rows)
    return RecordedUse(
        headline=_headline(groups, simulation),
        evidence=tuple(_evidence(cluster_evidence, at) for cluster_evidence in simulation.evidence),
        rows=tuple(_row(tenant) for tenant in groups),
        left_out=simulation.left_out,
        refusals=tuple(map(_refusal, simulation.breaches)),
        notes=(*_blind_notes(groups), *simulation.notes),
    )


def _headline(groups: tuple[TenantImpact, ...], simulation: Simulation) -> str:
    if simulation.evidence and all(
        cluster_evidence.stale for cluster_evidence in simulation.evidence
    ):
        return "no usable evidence: whether clients will be throttled is unknown"
    worse = [tenant for tenant in groups if tenant.worst.verdict is ImpactVerdict.WORSE]
    late = sum(_loses(tenant.worst) for tenant in worse)
    blind = sum(not tenant.worst.judged for tenant in groups)
    parts = [f"{count(len(worse), 'client')} of {len(groups):,} will be worse off"] if worse else []
    parts += [f"{count(late, 'client')} will lose records (delays above 120 s)"] if late else []
    parts += [f"{blind:,} of {len(groups):,} cannot be judged"] if blind else []
    if not parts:
        return _recorded_text(groups) + "none of those affected will be worse off"
    remainder = (
        f"; {count(simulation.left_out, 'row')} more only counted" if simulation.left_out else ""
    )
    return _recorded_text(groups) + ", ".join(parts) + remainder


def _recorded_text(groups: tuple[TenantImpact, ...]) -> str:
    """Return ``from 5 min of recorded use: `` for figures of a short recording, else ""."""
    longest_ms = max((tenant.worst.covered_ms for tenant in groups), default=0)
    return f"from {length_text(longest_ms)} of recorded use: " if 0 < longest_ms < SHORT_MS else ""


def _loses(row: ImpactRow) -> bool:
    return row.quota_type in LOSERS and bool(row.after_over_timeout_ms)


def _evidence(cluster_evidence: EvidenceNote, at: float) -> str:
    """Return ``14 d until 2026-11-21 18:00 UTC (3 h old), ...``, preceded by the reason if the evidence does not count."""
    if not cluster_evidence.to_ms:
        return f"no evidence of cluster {quoted(cluster_evidence.cluster_id)}: {cluster_evidence.stale}"
    old = age(max(0.0, at - cluster_evidence.to_ms / 1000))
    window = f"{length_text(cluster_evidence.to_ms - cluster_evidence.from_ms)} until {moment_text(cluster_evidence.to_ms)} ({old} old)"
    facts = [
        f"evidence of cluster {quoted(cluster_evidence.cluster_id)}: {window}",
        f"read every {length_text(cluster_evidence.step_ms)}",
        f"brokers answered in {share_text(cluster_evidence.coverage_ppm)} of it",
    ]
    counted_reasons = sorted(cluster_evidence.counts.items(), key=lambda pair: (-pair[1], pair[0]))[
        :MOST_COUNTS
    ]
    if counted_reasons:
        facts.append(
            "counted: " + ", ".join(f"{name} {amount:,}" for name, amount in counted_reasons)
        )
    if cluster_evidence.source:
        facts.append(cluster_evidence.source)
    if cluster_evidence.stale:
        facts.insert(0, f"does not count: {cluster_evidence.stale}")
    return "; ".join((*facts, *cluster_evidence.partial))


def _row(tenant: TenantImpact) -> UseRow:
    row = tenant.worst
    kind = row.quota_type
    broker = "" if not row.broker_id else f"broker {row.broker_id}"
    if tenant.brokers > 1:
        broker += f"; throttled on {tenant.throttled} of {tenant.brokers}"
    return UseRow(
        bucket=bucket_text(row.bucket, any_name=row.any_name),
        limit_name=type_text(kind),
        before=_limit(kind, row.before_units),
        after=_limit(kind, row.after_units),
        description=_verdict_text(row),
        broker=broker,
        mark="?" if row.may_be_worse else _MARKS.get(row.verdict, ""),
    )


def _limit(kind: QuotaType, units: int | None) -> str:
    return "no limit" if units is None else units_text(kind, units)


def _verdict_text(row: ImpactRow) -> str:
    match row.verdict:
        case ImpactVerdict.NOT_IDENTIFIABLE:
            return f"cannot be known: {row.why or 'the bound of its use is above the limit'}"
        case ImpactVerdict.NO_DATA:
            return f"no data: {row.why}"
        case ImpactVerdict.SAFE_BY_BOUND:
            return "not throttled, even if all that was recorded were its own"
        case _:
            return _figures(row)


def _figures(row: ImpactRow) -> str:
    if row.after_throttled_ms is None:
        return "less throttled than now; by how much cannot be known from use that was held back"
    if not row.after_throttled_ms and not row.before_throttled_ms and not row.worst_throttled_ms:
        return _without_figures(row)
    sign = _AT_LEAST[row.bound]
    daily = between_per_day_text(row.after_throttled_ms, row.worst_throttled_ms, row.covered_ms)
    sentence = f"{_DOES[row.model]} {sign}{daily}"
    now = (
        per_day_text(row.before_throttled_ms, row.covered_ms)
        if row.before_throttled_ms
        else "never"
    )
    is_interval = row.bound is FigureBound.BETWEEN
    now += " in the best case" if is_interval and row.before_units is not None else ""
    sentence += f" (now {now})"
    if row.after_max_delay_ms or row.worst_max_delay_ms:
        delay = between_text(row.after_max_delay_ms, row.worst_max_delay_ms)
        sentence += f", worst delay {sign}{delay}"
    if row.after_over_timeout_ms:
        least = "at least " if is_interval else sign
        sentence += (
            f"; {least}{per_day_text(row.after_over_timeout_ms, row.covered_ms)} above 120 s"
        )
        sentence += ", where producers lose records" if _loses(row) else ""
    return sentence + _observed(row)


def _without_figures(row: ImpactRow) -> str:
    """Return the text for a client without throttling before and after; "never" only if no recorded fact contradicts it.

    A client that its limit held back all day recorded just less than the limit, so a replay under that limit, or one a
    little tighter, shows no throttling.
    """
    does = _DOES[row.model].split(",")[0]
    if row.after_units is None:
        return f"never {does}" + (_observed(row, least_ms=0) if row.held_back_ms else ", as now")
    if not row.held_back_ms:
        never = row.bound is FigureBound.EXACT
        return (
            f"never {does}, as now"
            if never
            else f"{_DOES_NOT[row.model]} in what was recorded, which may be less than what was wanted"
        )
    observed = _observed(row, least_ms=0)
    match move(row.before_units, row.after_units):
        case LimitMove.TIGHTER:
            return f"recorded use was held back: {does} at least as much as now{observed}"
        case LimitMove.EQUAL:
            return f"{does} as much as now{observed}"
        case LimitMove.LOOSER:
            return f"{_DOES_NOT[row.model]} in what was recorded{observed}"


def _observed(row: ImpactRow, *, least_ms: int = 60_000) -> str:
    """Return what the broker recorded besides the model's figure: throttled time above ``least_ms`` a day, and censored time."""
    observed_ms = row.observed_throttled_ms
    parts: list[str] = []
    if observed_ms and observed_ms * DAY_MS > least_ms * row.covered_ms:
        parts.append(f"seen throttled {per_day_text(observed_ms, row.covered_ms)}")
    if row.censored_ms and row.covered_ms:
        share = share_text(row.censored_ms * MILLION // row.covered_ms)
        parts.append(f"held back in {share} of the time")
    return f"; {', '.join(parts)}" if parts else ""


def _refusal(tier_breach: TierBreach) -> ToleranceViolation:
    row, breach = tier_breach.row, tier_breach.breach
    broker = f" on broker {row.broker_id}" if row.broker_id else ""
    return ToleranceViolation(
        entity=read_canonical(row.source_entity) if row.source_entity else None,
        key=KEY_OF[row.quota_type],
        message=f"{bucket_text(row.bucket, any_name=row.any_name)} ({type_text(row.quota_type)}, tier {quoted(tier_breach.tier)}):"
        f" {breach.what} {length_text(breach.found_ms, unlike=breach.allowed_ms)}, allowed"
        f" {length_text(breach.allowed_ms, unlike=breach.found_ms)}{broker}",
    )


def _blind_notes(groups: tuple[TenantImpact, ...]) -> tuple[str, ...]:
    verdicts = {tenant.worst.verdict for tenant in groups}
    held_back = (_AT_LEAST_SAYS,) if any(tenant.worst.may_be_worse for tenant in groups) else ()
    return (
        *(sentence for verdict, sentence in _BLIND_SAYS.items() if verdict in verdicts),
        *held_back,
    )
