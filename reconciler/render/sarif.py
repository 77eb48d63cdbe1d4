"""Problems of files and plans as SARIF 2.1.0, the format that code hosts show beside the changed lines."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import quote

from reconciler.base.escaping import escaped
from reconciler.errors import Problem
from reconciler.quota.entity_forms import entity_text
from reconciler.quota.policy import Cause
from reconciler.quota.results.report import Preview
from reconciler.render.json_values import Json
from reconciler.render.recorded_use import RecordedUse
from reconciler.render.units import limit

SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"

_EMBEDDED_LINK: Final = re.compile(r"[\[\]]|\\(?=[\[\]\\])")

Level = Literal["error", "warning", "note"]

RULES: Final[Mapping[str, tuple[Level, str]]] = {
    "manifest": ("error", "A manifest breaks the schema or a rule of Kafka."),
    "conflict": ("error", "Two documents declare the same quota key."),
    "guard": ("error", "A guard refuses a change."),
    "rejected": ("error", "The broker, or its rules, would reject a change."),
    "warning": ("warning", "A rule may match no client, or every client, by mistake."),
    "takeover": ("warning", "A change overwrites a value that another writer set."),
    "drift": ("warning", "A live value differs from the one last applied."),
    "removal": ("note", "A change removes a limit."),
    "change": ("note", "A change sets a limit."),
    "evidence": ("error", "The effect by recorded use violates the what-if policy."),
}
"""Rule id -> level and sentence. The order is that of ``ruleIndex``."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class SarifResult:
    """One result."""

    path: str  # file, relative to the repository; "" = no place
    line: int  # from 1; 0 = the whole file
    column: int  # from 1; 0 = the whole line
    rule: str  # one of `RULES`
    message: str  # sentences for people; names in it must be escaped or harmless

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise ValueError(f"{self.rule!r} is not a known rule")


def findings_of(problems: Iterable[Problem], *, rule: str = "manifest") -> tuple[SarifResult, ...]:
    """Return problems of files as results of one rule."""
    return tuple(
        SarifResult(
            path=problem.path,
            line=problem.line,
            column=problem.column,
            rule=rule,
            message=problem.message,
        )
        for problem in problems
    )


def plan_findings(preview: Preview, recorded: RecordedUse | None = None) -> tuple[SarifResult, ...]:
    """Return results for reviewers of changed lines: what prevents a plan, and each change at its rule."""
    results: list[SarifResult] = [] if recorded is None else _refused_by_use(preview, recorded)
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


def _refused_by_use(preview: Preview, recorded: RecordedUse) -> list[SarifResult]:
    """Return refusals by recorded use, at the rules of their limits; a removed limit has no place."""
    places = {
        change.pair: change.claim.place(change.key)
        for change in preview.plan.changes
        if change.claim is not None
    }
    results: list[SarifResult] = []
    for refusal in recorded.refusals:
        place = places.get((refusal.entity, refusal.key), "") if refusal.entity is not None else ""
        results.append(_at(place, "evidence", refusal.message))
    return results


def _at(place: str, rule: str, message: str) -> SarifResult:
    path, _, line = place.rpartition(":")
    return SarifResult(path=path, line=int(line or 0), column=0, rule=rule, message=message)


def sarif_document(findings: Sequence[SarifResult], *, tool_version: str) -> dict[str, Json]:
    """Return one run with all results, sorted."""
    order = list(RULES)
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "kquota",
                        "version": tool_version,
                        "rules": [
                            {
                                "id": name,
                                "shortDescription": {"text": sentence},
                                "defaultConfiguration": {"level": level},
                            }
                            for name, (level, sentence) in RULES.items()
                        ],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "results": [
                    {
                        "ruleId": finding.rule,
                        "ruleIndex": order.index(finding.rule),
                        "level": RULES[finding.rule][0],
                        "message": {"text": _message(finding.message)},
                        **_locations(finding),
                    }
                    for finding in sorted(findings)
                ],
            }
        ],
    }


def _message(text: str) -> str:
    r"""Return a plain-text message without embedded links (SARIF 2.1.0, 3.11.6): brackets are escaped with ``\``."""
    return _EMBEDDED_LINK.sub(r"\\\g<0>", escaped(text))


def _locations(finding: SarifResult) -> dict[str, Json]:
    if not finding.path:
        return {}
    region: dict[str, Json] = {}
    if finding.line > 0:
        region = {"startLine": finding.line}
    if finding.line > 0 and finding.column > 0:
        region = {"startLine": finding.line, "startColumn": finding.column}
    uri = quote(finding.path.encode("utf-8", "surrogateescape"))
    place: dict[str, Json] = {"artifactLocation": {"uri": uri}}
    return {"locations": [{"physicalLocation": place | ({"region": region} if region else {})}]}
