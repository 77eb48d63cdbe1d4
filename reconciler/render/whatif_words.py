"""A simulation in words: per tenant one sentence that says what its limit will do to what it used, and how sure that is."""

from typing import Final

from reconciler.render.names import quoted
from reconciler.render.recorded import Recorded, Refusal, UseRow
from reconciler.render.units import age, count
from reconciler.render.use_words import (
    bucket_text,
    length_text,
    moment_text,
    per_day_text,
    share_text,
    type_text,
    units_text,
)
from reconciler.usage.censoring import Bound, Move, move
from reconciler.usage.findings import Evidence, ImpactRow, Simulation, TierBreach
from reconciler.usage.samples import DAY_MS, KEY_OF, MILLION, QuotaType
from reconciler.usage.tables import read_entity
from reconciler.usage.throttle import Model
from reconciler.usage.verdict import Verdict
from reconciler.usage.whatif import Tenant, tenants

_AT_LEAST: Final = {Bound.EXACT: "", Bound.AT_LEAST: "at least ", Bound.AT_MOST: "at most "}
_DOES: Final = {
    Model.BACKLOG: "throttled",
    Model.TOKENS: "throttled",
    Model.REJECTED: "connections refused",
    Model.APPROXIMATE: "over the limit, which delays each request by up to a second,",
}
_DOES_NOT: Final = {
    Model.BACKLOG: "not throttled",
    Model.TOKENS: "not throttled",
    Model.REJECTED: "no connection refused",
    Model.APPROXIMATE: "not over the limit",
}
LOSERS: Final = frozenset({QuotaType.PRODUCE})
"""Whose delays lose records: a producer gives a record up after ``delivery.timeout.ms``. A fetch or a request to a controller waits."""

_AT_LEAST_SAYS: Final = "Held back: where a limit held clients back, they recorded no more than it let them. Of a tighter one it can only be told that it throttles at least as much."
_BLIND_SAYS: Final = {
    Verdict.NOT_IDENTIFIABLE: "Cannot be told: the change regroups clients that were recorded together, so no figure would be honest.",
    Verdict.NO_DATA: 'No data: nothing was recorded that could tell; it does not mean "no impact".',
}
MOST_COUNTS: Final = 6
"""So many named states of the evidence are shown, the largest first; the JSON plan has all."""

_MARKS: Final = {Verdict.WORSE: "!", Verdict.NOT_IDENTIFIABLE: "?", Verdict.NO_DATA: "?"}


def recorded_of(found: Simulation, *, at: float) -> Recorded:
    """The section.

    Args:
        found: What was simulated.
        at: When the plan was made, in seconds since the epoch: evidence is as old as then.
    """
    groups = tenants(found.rows)
    return Recorded(
        headline=_headline(groups, found),
        evidence=tuple(_evidence(one, at) for one in found.evidence),
        rows=tuple(_row(one) for one in groups),
        left_out=found.left_out,
        refusals=tuple(map(_refusal, found.breaches)),
        notes=(*_blind_notes(groups), *found.notes),
    )


def _headline(groups: tuple[Tenant, ...], found: Simulation) -> str:
    if found.evidence and all(one.stale for one in found.evidence):
        return "nothing: no evidence counts, so whether anybody will be throttled is not known"
    worse = [one for one in groups if one.worst.verdict is Verdict.WORSE]
    late = sum(_loses(one.worst) for one in worse)
    blind = sum(not one.worst.judged for one in groups)
    parts = [f"{count(len(worse), 'client')} of {len(groups):,} will be worse off"] if worse else []
    parts += [f"{count(late, 'client')} will lose records (delays above 120 s)"] if late else []
    parts += [f"{blind:,} of {len(groups):,} cannot be judged"] if blind else []
    if not parts:
        return "nobody who is affected will be worse off"
    more = f"; {count(found.left_out, 'row')} more only counted" if found.left_out else ""
    return ", ".join(parts) + more


def _loses(one: ImpactRow) -> bool:
    return one.quota_type in LOSERS and bool(one.after_over_timeout_ms)


def _evidence(one: Evidence, at: float) -> str:
    """``14 d until 2026-11-21 18:00 UTC (3 h old), ...``; why it does not count goes first."""
    if not one.to_ms:
        return f"no evidence of cluster {quoted(one.cluster_id)}: {one.stale}"
    old = age(max(0.0, at - one.to_ms / 1000))
    window = f"{length_text(one.to_ms - one.from_ms)} until {moment_text(one.to_ms)} ({old} old)"
    facts = [
        f"evidence of cluster {quoted(one.cluster_id)}: {window}",
        f"read every {length_text(one.step_ms)}",
        f"brokers answered in {share_text(one.coverage_ppm)} of it",
    ]
    counted = sorted(one.counts.items(), key=lambda pair: (-pair[1], pair[0]))[:MOST_COUNTS]
    if counted:
        facts.append("counted: " + ", ".join(f"{name} {amount:,}" for name, amount in counted))
    if one.source:
        facts.append(one.source)
    if one.stale:
        facts.insert(0, f"does not count: {one.stale}")
    return "; ".join((*facts, *one.partial))


def _row(tenant: Tenant) -> UseRow:
    one = tenant.worst
    kind = one.quota_type
    where = "" if not one.broker_id else f"broker {one.broker_id}"
    if tenant.brokers > 1:
        where += f"; throttled on {tenant.throttled} of {tenant.brokers}"
    return UseRow(
        who=bucket_text(one.bucket, any_name=one.any_name),
        what=type_text(kind),
        before=_limit(kind, one.before_units),
        after=_limit(kind, one.after_units),
        says=_says(one),
        where=where,
        mark="?" if one.may_be_worse else _MARKS.get(one.verdict, ""),
    )


def _limit(kind: QuotaType, units: int | None) -> str:
    return "no limit" if units is None else units_text(kind, units)


def _says(one: ImpactRow) -> str:
    match one.verdict:
        case Verdict.NOT_IDENTIFIABLE:
            return f"cannot be told: {one.why or 'the bound of its use is above the limit'}"
        case Verdict.NO_DATA:
            return f"no data: {one.why}"
        case Verdict.SAFE_BY_BOUND:
            return "not throttled, even if all that was recorded were its own"
        case _:
            return _figures(one)


def _figures(one: ImpactRow) -> str:
    if one.after_throttled_ms is None:
        return "less throttled than now; by how much cannot be told from use that was held back"
    if not one.after_throttled_ms and not one.before_throttled_ms:
        return _without_figures(one)
    sign = _AT_LEAST[one.bound]
    said = f"{_DOES[one.model]} {sign}{per_day_text(one.after_throttled_ms, one.covered_ms)}"
    now = per_day_text(one.before_throttled_ms, one.covered_ms) if one.before_throttled_ms else "never"  # fmt: skip
    said += f" (now {now})"
    if one.after_max_delay_ms:
        said += f", worst delay {sign}{length_text(one.after_max_delay_ms)}"
    if one.after_over_timeout_ms:
        said += f"; {sign}{per_day_text(one.after_over_timeout_ms, one.covered_ms)} above 120 s"
        said += ", where producers lose records" if _loses(one) else ""
    return said + _observed(one)


def _without_figures(one: ImpactRow) -> str:
    """Of a client that the replay throttles neither today nor then. "Never" is said only where nothing speaks against it.

    A client that its limit holds back all day records just less than the limit, and replayed under that limit or one
    a little tighter it looks content.
    """
    does = _DOES[one.model].split(",")[0]
    if one.after_units is None:
        return f"never {does}" + (_observed(one, least_ms=0) if one.held_back_ms else ", as now")
    if not one.held_back_ms:
        never = one.bound is Bound.EXACT
        return f"never {does}, as now" if never else f"{_DOES_NOT[one.model]} in what was recorded, which may be less than what was wanted"  # fmt: skip
    seen = _observed(one, least_ms=0)
    match move(one.before_units, one.after_units):
        case Move.TIGHTER:
            return f"recorded use was held back: {does} at least as much as now{seen}"
        case Move.EQUAL:
            return f"{does} as much as now{seen}"
        case Move.LOOSER:
            return f"{_DOES_NOT[one.model]} in what was recorded{seen}"


def _observed(one: ImpactRow, *, least_ms: int = 60_000) -> str:
    """What the broker was seen to do goes beside what the model says of today, where they differ by so much a day."""
    seen = one.observed_throttled_ms
    parts: list[str] = []
    if seen and seen * DAY_MS > least_ms * one.covered_ms:
        parts.append(f"seen throttled {per_day_text(seen, one.covered_ms)}")
    if one.censored_ms and one.covered_ms:
        share = share_text(one.censored_ms * MILLION // one.covered_ms)
        parts.append(f"held back in {share} of the time")
    return f"; {', '.join(parts)}" if parts else ""


def _refusal(one: TierBreach) -> Refusal:
    row, breach = one.row, one.breach
    broker = f" on broker {row.broker_id}" if row.broker_id else ""
    return Refusal(
        entity=read_entity(row.source_entity) if row.source_entity else None,
        key=KEY_OF[row.quota_type],
        says=f"{bucket_text(row.bucket, any_name=row.any_name)} ({type_text(row.quota_type)}, tier {quoted(one.tier)}):"
        f" {breach.what} {length_text(breach.found_ms, unlike=breach.allowed_ms)}, allowed"
        f" {length_text(breach.allowed_ms, unlike=breach.found_ms)}{broker}",
    )


def _blind_notes(groups: tuple[Tenant, ...]) -> tuple[str, ...]:
    found = {one.worst.verdict for one in groups}
    held_back = (_AT_LEAST_SAYS,) if any(one.worst.may_be_worse for one in groups) else ()
    return (*(says for verdict, says in _BLIND_SAYS.items() if verdict in found), *held_back)
