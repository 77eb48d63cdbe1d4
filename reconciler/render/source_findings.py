"""Problems of files and plans at their lines, for annotations and reports that code hosts show beside the changed lines."""

from collections.abc import Iterable, Mapping
from typing import Final, Literal

from msgspec import Struct

from reconciler.errors import Problem
from reconciler.quota.entity import entity_text
from reconciler.quota.policy import Cause
from reconciler.quota.results.report import Preview
from reconciler.render.recorded_use import RecordedUse
from reconciler.render.units import limit

Level = Literal["error", "warning", "note"]

RULES: Final[Mapping[str, Level]] = {
    "manifest": "error",
    "conflict": "error",
    "guard": "error",
    "rejected": "error",
    "warning": "warning",
    "takeover": "warning",
    "drift": "warning",
    "removal": "note",
    "change": "note",
    "evidence": "error",
}
"""Rule id -> level."""


class SourceFinding(Struct, frozen=True, kw_only=True, order=True, gc=False):
    """A problem, a warning or a change at a line of a file."""

    path: str  # file, relative to the repository; "" = no place
    line: int  # from 1; 0 = the whole file
    column: int  # from 1; 0 = the whole line
    rule: str  # one of `RULES`
    message: str  # sentences for people; names in it must be escaped or harmless

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise ValueError(f"{self.rule!r} is not a known rule")


def findings_of(
    problems: Iterable[Problem], *, rule: str = "manifest"
) -> tuple[SourceFinding, ...]:
    """Return problems of files as results of one rule; what scope or grants refuse, of the rule ``guard``."""
    return tuple(
        SourceFinding(
            path=problem.path,
            line=problem.line,
            column=problem.column,
            rule="guard" if problem.is_refusal else rule,
            message=problem.message,
        )
        for problem in problems
    )


def plan_findings(
    preview: Preview, recorded: RecordedUse | None = None
) -> tuple[SourceFinding, ...]:
    """Return results for reviewers of changed lines: what prevents a plan, and each change at its rule."""
    results: list[SourceFinding] = [] if recorded is None else _refused_by_use(preview, recorded)
    for conflict in preview.plan.conflicts:
        pair = f"{entity_text(conflict.entity)} {conflict.key}"
        places = ", ".join(claim.place(conflict.key) for claim in conflict.claims)
        results += [
            _at(claim.place(conflict.key), "conflict", f"{pair} is claimed at {places}")
            for claim in conflict.claims
        ]
    for violation in preview.violations:
        subject = f"{entity_text(violation.entity)}: " if violation.entity is not None else ""
        results.append(
            _at(
                violation.place,
                "guard",
                f"{subject}{violation.message} (allowed by {violation.setting or violation.allow_with})",
            )
        )
    results += [_at(warning.place, "warning", warning.message) for warning in preview.open_advice]
    for change in preview.plan.changes:
        rejection = preview.verdict.rejections.get(change.entity)
        place = change.claim.place(change.key) if change.claim is not None else ""
        effect = f"{limit(change.key, change.before)} -> {limit(change.key, change.after)}"
        pair = f"{entity_text(change.entity)} {change.key}: {effect}"
        if rejection is not None:
            results.append(_at(place, "rejected", f"{pair}: {rejection.name}: {rejection.message}"))
        elif change.cause is Cause.TAKEOVER:
            results.append(_at(place, "takeover", pair))
        elif change.cause is Cause.DRIFT:
            results.append(_at(place, "drift", pair))
        else:
            results.append(_at(place, "removal" if change.removes else "change", pair))
    for drifted in preview.plan.findings_for(Cause.DRIFT):
        place = drifted.claim.place(drifted.key) if drifted.claim is not None else ""
        change_text = f"{limit(drifted.key, drifted.applied)} -> {limit(drifted.key, drifted.live)}"
        results.append(
            _at(place, "drift", f"{entity_text(drifted.entity)} {drifted.key}: {change_text}")
        )
    return tuple(sorted(results))


def _refused_by_use(preview: Preview, recorded: RecordedUse) -> list[SourceFinding]:
    """Return refusals by recorded use, at the rules of their limits; a removed limit has no place."""
    places = {
        change.pair: change.claim.place(change.key)
        for change in preview.plan.changes
        if change.claim is not None
    }
    results: list[SourceFinding] = []
    for refusal in recorded.refusals:
        place = places.get((refusal.entity, refusal.key), "") if refusal.entity is not None else ""
        results.append(_at(place, "evidence", refusal.message))
    return results


def _at(place: str, rule: str, message: str) -> SourceFinding:
    path, _, line = place.rpartition(":")
    return SourceFinding(path=path, line=int(line or 0), column=0, rule=rule, message=message)
