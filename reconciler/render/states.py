"""Live quotas, effective limits, drift and checks, for terminals and as JSON documents."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from reconciler.quota.change import Finding
from reconciler.quota.entity import LEVEL_NAMES
from reconciler.quota.expired_overrides import ExpiredOverride
from reconciler.quota.precedence import Effective, Principal, Resolution
from reconciler.quota.state import State, set_values
from reconciler.quota.twins import Twin
from reconciler.render.documents import Json, entity_json, value_json
from reconciler.render.json_plan import finding_row
from reconciler.render.names import entity_text, escaped, parts_text, quoted
from reconciler.render.table import Cell, Style, folded, table
from reconciler.render.units import PER_BROKER, UNSET, age, count, instant, limit, number, quantity

PLAIN = Style()


# ---- describe --------------------------------------------------------------------------------


def state_text(state: State, *, style: Style = PLAIN) -> str:
    """What is live, one line per pair; foreign entities and keys at the end, marked as such."""
    rows: list[list[Cell | str]] = [
        [
            entity_text(subject) if at == 0 else "",
            str(key),
            Cell(text=number(value), right=True),
            quantity(key, value),
        ]
        for subject in state.entities()
        for at, (key, value) in enumerate(set_values(state.limits[subject]))
    ]
    foreign: list[list[Cell | str]] = [
        [entity_text(subject), escaped(name), Cell(text=number(value), right=True), "foreign key"]
        for subject in state.entities()
        for name, value in state.foreign_values.get(subject, ())
    ]
    foreign += [
        [parts_text(named), escaped(name), Cell(text=number(value), right=True), "foreign entity"]
        for named, values in state.foreign_entities
        for name, value in values
    ]
    if not rows and not foreign:
        return "No quotas.\n"
    lines = table([*rows, *foreign], heads=("ENTITY", "KEY", "VALUE", ""), style=style)
    return "\n".join([*lines, "", style.paint(PER_BROKER, "dim")]) + "\n"


# ---- resolve ---------------------------------------------------------------------------------


def principal_text(principal: Principal) -> str:
    """``user=alice client-id=shop``."""
    named = (("user", principal.user), ("client-id", principal.client_id), ("ip", principal.ip))
    return " ".join(f"{kind}={quoted(name)}" for kind, name in named if name is not None)


def resolutions_text(resolutions: Sequence[Resolution], *, style: Style = PLAIN) -> str:
    """Effective limits with their level, source, bucket and what they override."""
    lines: list[str] = []
    for resolution in resolutions:
        rows: list[list[Cell | str]] = [_effective_cells(one) for one in resolution.effective]
        heads = ("KEY", "LIMIT", "LEVEL", "FROM", "SHARED BY", "OVERRIDES")
        lines += [style.paint(principal_text(resolution.principal), "bold")]
        lines += [*table(rows, heads=heads, style=style, indent="  "), ""]
    return "\n".join([*lines, style.paint(PER_BROKER, "dim")]) + "\n"


def _effective_cells(one: Effective) -> list[Cell | str]:
    return [
        str(one.key),
        Cell(text=_effective_limit(one), right=True),
        f"{one.level}: {LEVEL_NAMES[one.level]}" if one.level else UNSET,
        UNSET
        if one.source is None
        else " or ".join(
            entity_text(source)
            for source in (one.source, *(spelling.entity for spelling in one.spellings))
        ),
        _bucket(one),
        "; ".join(f"{entity_text(lost.entity)} {limit(one.key, lost.value)}" for lost in one.lost),
    ]


def _effective_limit(one: Effective) -> str:
    if not one.is_known:
        return "unknown"
    return "unlimited" if one.value is None else limit(one.key, one.value)


def spelling_warnings(resolutions: Iterable[Resolution]) -> tuple[str, ...]:
    """One warning per address with several live spellings that disagree."""
    return tuple(
        f"{quoted(resolution.principal.ip or '')} is live under"
        f" {len(one.spellings) + 1} spellings with different limits: "
        + ", ".join(
            f"{entity_text(source)} {limit(one.key, value)}"
            for source, value in (
                (one.source, one.value),
                *((spelling.entity, spelling.value) for spelling in one.spellings),
            )
        )
        + "; brokers apply the one that was written last, which no describe shows. Remove all of"
        " them and set the limit once"
        for resolution in resolutions
        for one in resolution.effective
        if one.source is not None and one.value is not None and not one.is_known
    )


def _bucket(one: Effective) -> str:
    """Who draws on the same limit: the metric tags that are set."""
    if one.source is None:
        return UNSET
    if len(one.bucket) == 1:
        return f"all connections of {quoted(one.bucket[0])}"
    user, client_id = one.bucket
    if user and client_id:
        return "nobody else"
    return f"all client-ids of {quoted(user)}" if user else f"all users with {quoted(client_id)}"


def resolutions_document(resolutions: Iterable[Resolution], *, cluster_id: str) -> dict[str, Json]:
    """The same as JSON."""
    return {
        "kind": "kquota-resolutions",
        "format": 1,
        "clusterId": cluster_id,
        "clients": [
            {
                "user": one.principal.user,
                "clientId": one.principal.client_id,
                "ip": one.principal.ip,
                "limits": {
                    str(effective.key): _effective(effective) for effective in one.effective
                },
            }
            for one in resolutions
        ],
    }


def _effective(one: Effective) -> dict[str, Json]:
    return {
        "value": value_json(one.value) if one.is_known else None,
        "level": one.level,
        "known": one.is_known,
        "source": None if one.source is None else entity_json(one.source),
        "spellings": [
            {"entity": entity_json(spelling.entity), "value": value_json(spelling.value)}
            for spelling in one.spellings
        ],
        "bucket": list(one.bucket),
        "overrides": [
            {
                "entity": entity_json(lost.entity),
                "level": lost.level,
                "value": value_json(lost.value),
            }
            for lost in one.lost
        ],
    }


# ---- drift -----------------------------------------------------------------------------------


SHOWN_DRIFT: Final = 1_000
"""More drift than this is counted, not listed."""


def drift_text(
    findings: Sequence[Finding],
    expired_overrides: Sequence[ExpiredOverride] = (),
    *,
    now: float,
    style: Style = PLAIN,
    verbose: bool = False,
) -> str:
    """Drift and expired overrides, each with its age; ``verbose`` shows long lists in full."""
    drift = _drift_lines(findings, now=now, style=style, verbose=verbose)
    expired = _expired_lines(expired_overrides, now=now, style=style, verbose=verbose)
    between = [""] if drift and expired else []
    return "\n".join([*drift, *between, *expired] or ["No drift."]) + "\n"


def _drift_lines(
    findings: Sequence[Finding], *, now: float, style: Style, verbose: bool
) -> list[str]:
    if not findings:
        return []
    shown = findings if verbose else findings[:SHOWN_DRIFT]
    rows: list[list[Cell | str]] = [
        [
            Cell(text="!", colours=("yellow",)),
            entity_text(one.entity),
            str(one.key),
            Cell(text=limit(one.key, one.applied), right=True),
            Cell(text="->", joined=True),
            Cell(text=limit(one.key, one.live), right=True, joined=True),
            "" if one.since is None else f"first seen {age(now - one.since)} ago",
            "" if one.owner is None else escaped(one.owner.document),
        ]
        for one in shown
    ]
    heads = ("", "ENTITY", "KEY", "EXPECTED", "", "LIVE", "", "DOCUMENT")
    title = style.paint(f"Drift: {count(len(findings), 'pair')}", "bold", "yellow")
    return [
        title,
        *table(rows, heads=heads, style=style),
        *_more(len(findings) - len(shown)),
    ]


def _expired_lines(
    expired_overrides: Sequence[ExpiredOverride], *, now: float, style: Style, verbose: bool
) -> list[str]:
    if not expired_overrides:
        return []
    shown = expired_overrides if verbose else expired_overrides[:SHOWN_DRIFT]
    rows: list[list[Cell | str]] = [
        [
            Cell(text="!", colours=("yellow",)),
            entity_text(override.entity),
            str(override.key),
            Cell(text=limit(override.key, expired.expected), right=True),
            "->",
            Cell(text=limit(override.key, expired.live), right=True),
            f"ended {age(now - override.until)} ago",
            escaped(override.who),
            escaped(override.reason),
        ]
        for expired in shown
        for override in (expired.override,)
    ]
    heads = ("", "ENTITY", "KEY", "EXPECTED", "", "LIVE", "OVERRIDE", "WHO", "REASON")
    many = count(len(expired_overrides), "override")
    title = style.paint(f"Expired and still live: {many}", "bold", "yellow")
    return [
        title,
        *table(rows, heads=heads, style=style),
        *_more(len(expired_overrides) - len(shown)),
    ]


def _more(omitted: int) -> list[str]:
    return [f"and {omitted:,} more (--verbose shows all)"] if omitted else []


def drift_document(
    findings: Sequence[Finding],
    expired_overrides: Sequence[ExpiredOverride] = (),
    *,
    cluster_id: str,
    now: float,
    twins: Iterable[Twin] = (),
) -> dict[str, Json]:
    """The same as JSON, with the other spellings of addresses that are ours."""
    return {
        "kind": "kquota-drift",
        "format": 1,
        "clusterId": cluster_id,
        "checkedAt": instant(now),
        "drift": [finding_row(one) for one in findings],
        "expiredOverrides": [_expired_row(expired) for expired in expired_overrides],
        "twins": [
            {
                "entity": entity_json(twin.entity),
                "live": entity_json(twin.live),
                "removal": twin.removal,
            }
            for twin in twins
        ],
    }


def _expired_row(expired: ExpiredOverride) -> dict[str, Json]:
    override = expired.override
    return {
        "entity": entity_json(override.entity),
        "text": entity_text(override.entity),
        "key": str(override.key),
        "expected": value_json(expired.expected),
        "live": value_json(expired.live),
        "until": instant(override.until),
        "who": override.who,
        "reason": override.reason,
        "document": expired.document,
    }


# ---- doctor ----------------------------------------------------------------------------------


class Health(StrEnum):
    """How a check went."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"


_COLOURS: Mapping[Health, str] = {
    Health.OK: "green",
    Health.NOTE: "cyan",
    Health.WARNING: "yellow",
    Health.FAILED: "red",
    Health.SKIPPED: "dim",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that ``doctor`` looked at.

    Attributes:
        name: In a word or two: ``reachable``, ``permissions``.
        health: How it went.
        found: What was seen, in a sentence.
        advice: What to do, or "".
    """

    name: str
    health: Health
    found: str
    advice: str = ""


def checks_text(checks: Sequence[Check], *, style: Style = PLAIN) -> str:
    """The checks, one after the other, with what to do about those that failed."""
    lines: list[str] = []
    width = max((len(one.name) for one in checks), default=0)
    hang = 7 + 2 + width + 2
    for one in checks:
        mark = style.paint(f"{one.health:<7}", _COLOURS[one.health])
        line = f"{mark}  {one.name:<{width}}  {escaped(one.found)}".rstrip()
        lines += folded(line, style.width, hang=hang)
        if one.advice:
            advice = f"{'':{hang}}{style.paint(escaped(one.advice), 'dim')}"
            lines += folded(advice, style.width, hang=hang)
    return "\n".join(lines) + "\n"


def checks_document(checks: Sequence[Check], *, cluster_id: str) -> dict[str, Json]:
    """The same as JSON."""
    return {
        "kind": "kquota-checks",
        "format": 1,
        "clusterId": cluster_id,
        "ok": all(one.health is not Health.FAILED for one in checks),
        "checks": [
            {"name": one.name, "health": str(one.health), "found": one.found, "advice": one.advice}
            for one in checks
        ],
    }
