"""Live quotas, effective limits, overrides and checks, for terminals and as JSON documents."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from reconciler.base.escaping import escaped
from reconciler.quota.entity import (
    ENTITY_TYPES,
    LEVEL_NAMES,
    canonical_address,
    entity_json,
    entity_text,
    parts_text,
)
from reconciler.quota.keys import Key, same_value
from reconciler.quota.overrides import Override
from reconciler.quota.ownership import Pair
from reconciler.quota.precedence import (
    ANONYMOUS,
    EffectiveLimit,
    Principal,
    Resolution,
    candidates,
    ip_candidates,
)
from reconciler.quota.state import QuotaState, set_values
from reconciler.render import units
from reconciler.render.impact_rows import effective_text, ranking_doubt, sharing_text
from reconciler.render.json_values import Json, value_json
from reconciler.render.table import Cell, Style, fits, fold, fold_lines, row_lines, table
from reconciler.render.units import PER_BROKER, UNSET, limit, number, quantity


def overrides_document(
    overrides: Sequence[Override], *, cluster_id: str, now: float
) -> dict[str, Json]:
    """One JSON document; ``now`` in seconds since the epoch decides which ones have expired."""
    rows: list[Json] = [
        {
            "entity": entity_json(override.entity),
            "key": str(override.key),
            "value": value_json(override.value),
            "declared": value_json(override.declared),
            "before": value_json(override.before),
            "until": units.instant(override.until),
            "expired": now >= override.until,
            "endsWithDocument": override.ends_with_document,
            "who": override.author,
            "document": override.document,
            "reason": override.reason,
        }
        for override in overrides
    ]
    return {"kind": "kquota-overrides", "format": 1, "clusterId": cluster_id, "overrides": rows}


def overrides_text(overrides: Sequence[Override], *, now: float, style: Style) -> str:
    """A table; ``now`` in seconds since the epoch decides which ones have expired."""
    if not overrides:
        return "no overrides"
    rows = [
        [
            entity_text(override.entity),
            str(override.key),
            units.limit(override.key, override.value) if override.value is not None else "unset",
            units.limit(override.key, override.declared)
            if override.declared is not None
            else "not declared",
            f"{units.instant(override.until)}, {units.age(override.until - now)} left"
            if now < override.until
            else "expired, not reverted",
            escaped(override.author or override.document),
            escaped(override.reason),
        ]
        for override in overrides
    ]
    heads = ("ENTITY", "KEY", "VALUE", "DECLARED WHEN IT BEGAN", "UNTIL", "WHO", "REASON")
    return "\n".join(table(rows, heads=heads, style=style))


PLAIN = Style()


# ---- describe --------------------------------------------------------------------------------


def state_text(state: QuotaState, *, style: Style = PLAIN) -> str:
    """Return live quotas, one line per pair; foreign entities and keys at the end, marked as such."""
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
        [
            parts_text(entity_parts),
            escaped(name),
            Cell(text=number(value), right=True),
            "foreign entity",
        ]
        for entity_parts, values in state.foreign_entities
        for name, value in values
    ]
    if not rows and not foreign:
        return "No quotas.\n"
    rows += foreign
    lines = table(rows, heads=("ENTITY", "KEY", "VALUE", ""))
    if fits(lines, style):
        lines = table(rows, heads=("ENTITY", "KEY", "VALUE", ""), style=style)
    else:
        groups = row_lines([row[1:] for row in rows], style=style, indent="  ")
        lines = []
        for row, group in zip(rows, groups, strict=True):
            lines += fold_lines([str(row[0])] if row[0] else [], style)
            lines += group
    return "\n".join([*lines, "", style.paint(PER_BROKER, "dim")]) + "\n"


# ---- resolve ---------------------------------------------------------------------------------


def principal_text(principal: Principal) -> str:
    """Return ``user=alice,client-id=shop``."""
    names = zip(ENTITY_TYPES, (principal.user, principal.client_id, principal.ip), strict=True)
    return parts_text(tuple((kind, name) for kind, name in names if name is not None))


def anonymous_note(resolutions: Iterable[Resolution]) -> str:
    """Return what the user of an anonymous client means; "" if every client has another user."""
    anonymous = [
        principal_text(resolution.principal)
        for resolution in resolutions
        if resolution.principal.user == ANONYMOUS
    ]
    if not anonymous:
        return ""
    more = f" and {len(anonymous) - 1} more" if len(anonymous) > 1 else ""
    return (
        f"{anonymous[0]}{more}: brokers call a client {ANONYMOUS} if it does not authenticate;"
        " the limits of a client that does depend on its user"
    )


def resolutions_text(resolutions: Sequence[Resolution], *, style: Style = PLAIN) -> str:
    """Return effective limits with their level, source, bucket and what they override."""
    lines: list[str] = []
    for resolution in resolutions:
        rows: list[list[Cell | str]] = [
            _effective_cells(effective) for effective in resolution.effective
        ]
        heads = ("KEY", "LIMIT", "LEVEL", "FROM", "SHARED BY", "OVERRIDES")
        lines += [style.paint(principal_text(resolution.principal), "bold")]
        if fits(table(rows, heads=heads, indent="  "), style):
            lines += [*table(rows, heads=heads, style=style, indent="  "), ""]
            continue
        groups = row_lines([row[:2] for row in rows], style=style, indent="  ")
        for row, group in zip(rows, groups, strict=True):
            details = zip(heads[3:], map(str, row[3:]), strict=True)
            lines += group + fold_lines(
                (f"    {head.lower()} {text}" for head, text in details if text not in {"", UNSET}),
                style,
            )
        lines.append("")
    return "\n".join([*lines, style.paint(PER_BROKER, "dim")]) + "\n"


def _effective_cells(effective: EffectiveLimit) -> list[Cell | str]:
    return [
        str(effective.key),
        Cell(text=effective_text(effective), right=True),
        LEVEL_NAMES[effective.level] if effective.level else UNSET,
        UNSET
        if effective.source is None
        else entity_text(effective.source)
        + "".join(f" or {parts_text(unranked.entity)}" for unranked in effective.unranked),
        sharing_text(effective),
        "; ".join(
            f"{entity_text(overridden.entity)} {limit(effective.key, overridden.value)}"
            for overridden in effective.overridden
        ),
    ]


def unknown_warnings(resolutions: Iterable[Resolution]) -> tuple[str, ...]:
    """Return one warning per unknown limit, with the entity that may apply."""
    return tuple(
        sentence
        for resolution in resolutions
        for effective in resolution.effective
        if not effective.is_known
        for sentence in _unknown_sentences(resolution.principal, effective)
    )


def _unknown_sentences(principal: Principal, effective: EffectiveLimit) -> Iterator[str]:
    for unranked in effective.unranked:
        yield (
            f"{principal_text(principal)}: the effective {effective.key} is unknown, because"
            f" {parts_text(unranked.entity)} {limit(effective.key, unranked.value)} may apply:"
            f" {ranking_doubt(unranked.entity)}"
        )


def temporary_limits(
    resolution: Resolution, overrides: Mapping[Pair, Override]
) -> dict[Key, Override]:
    """Return the temporary limits that decide about a client, by key: one that is its limit, or that takes a closer one away."""
    client = resolution.principal
    entities = candidates(client.user, client.client_id) if client.user is not None else ()
    entities += ip_candidates(canonical_address(client.ip) or "") if client.ip is not None else ()
    deciding: dict[Key, Override] = {}
    for effective in resolution.effective:
        for entity in entities:
            override = overrides.get((entity, effective.key))
            is_source = entity == effective.source
            value = effective.value if is_source else None
            if override is not None and same_value(effective.key, override.value, value):
                deciding[effective.key] = override
                break
            if is_source:
                break
    return deciding


def temporary_notes(
    resolutions: Iterable[Resolution], overrides: Mapping[Pair, Override]
) -> tuple[str, ...]:
    """Return a sentence for each limit that is a temporary one."""
    return tuple(
        f"{principal_text(resolution.principal)}: {key} is temporary: {entity_text(override.entity)}"
        f" {limit(key, override.value)}, {override.words}"
        for resolution in resolutions
        for key, override in temporary_limits(resolution, overrides).items()
    )


def resolutions_document(
    resolutions: Iterable[Resolution], *, cluster_id: str, overrides: Mapping[Pair, Override]
) -> dict[str, Json]:
    """Return the same as JSON."""
    return {
        "kind": "kquota-resolutions",
        "format": 1,
        "clusterId": cluster_id,
        "clients": [
            {
                "user": resolution.principal.user,
                "clientId": resolution.principal.client_id,
                "ip": resolution.principal.ip,
                "limits": {
                    str(effective.key): _effective(effective, temporary.get(effective.key))
                    for effective in resolution.effective
                },
            }
            for resolution in resolutions
            for temporary in (temporary_limits(resolution, overrides),)
        ],
    }


def _effective(effective: EffectiveLimit, temporary: Override | None) -> dict[str, Json]:
    return {
        "value": value_json(effective.value) if effective.is_known else None,
        "temporary": None if temporary is None else temporary.words,
        "level": effective.level,
        "known": effective.is_known,
        "source": None if effective.source is None else entity_json(effective.source),
        "unranked": [
            {
                "entity": [[kind, name] for kind, name in unranked.entity],
                "value": value_json(unranked.value),
            }
            for unranked in effective.unranked
        ],
        "bucket": list(effective.bucket),
        "overrides": [
            {
                "entity": entity_json(overridden.entity),
                "level": overridden.level,
                "value": value_json(overridden.value),
            }
            for overridden in effective.overridden
        ],
    }


# ---- doctor ----------------------------------------------------------------------------------


class CheckStatus(StrEnum):
    """The result of a check."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


_COLOURS: Mapping[CheckStatus, str] = {
    CheckStatus.OK: "green",
    CheckStatus.WARNING: "yellow",
    CheckStatus.FAILED: "red",
}


class Check(Struct, frozen=True, kw_only=True, gc=False):
    """One check of ``doctor``."""

    name: str
    health: CheckStatus
    observation: str
    advice: str = ""


def checks_text(checks: Sequence[Check], *, style: Style = PLAIN) -> str:
    """Return the checks, with advice for those that failed."""
    lines: list[str] = []
    width = max((len(item.name) for item in checks), default=0)
    hang = 7 + 2 + width + 2
    for check in checks:
        mark = style.paint(f"{check.health:<7}", _COLOURS[check.health])
        line = f"{mark}  {check.name:<{width}}  {escaped(check.observation)}".rstrip()
        lines += fold(line, style.width, hang=hang)
        if check.advice:
            advice = f"{'':{hang}}{style.paint(escaped(check.advice), 'dim')}"
            lines += fold(advice, style.width, hang=hang, is_message=True)
    return "\n".join(lines) + "\n"


def checks_document(checks: Sequence[Check], *, cluster_id: str) -> dict[str, Json]:
    """Return the same as JSON."""
    return {
        "kind": "kquota-checks",
        "format": 1,
        "clusterId": cluster_id,
        "ok": all(check.health is not CheckStatus.FAILED for check in checks),
        "checks": [
            {
                "name": check.name,
                "health": str(check.health),
                "found": check.observation,
                "advice": check.advice,
            }
            for check in checks
        ],
    }
