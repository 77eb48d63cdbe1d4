"""Rows about clients whose limits a plan changes, and about limits that can never apply after it."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from reconciler.base.escaping import quoted
from reconciler.quota.entity import ENTITY_TYPES, EntityParts, entity_text, parts_text
from reconciler.quota.planner.effects import Direction, bit_slips, unranked_limits
from reconciler.quota.planner.impact import (
    AffectedPrincipal,
    BucketSharing,
    Impact,
    own_entity,
)
from reconciler.quota.planner.plan import QuotaChange, apply_to
from reconciler.quota.precedence import EffectiveLimit, resolve
from reconciler.quota.results.report import Preview
from reconciler.quota.state import QuotaState
from reconciler.render.rows import by_how_much
from reconciler.render.sections import DisplayRow, RowSection
from reconciler.render.units import UNSET, count, limit, named_clients

_MARKS: Final[Mapping[Direction, tuple[str, str]]] = {
    Direction.TIGHTENED: ("<", "red"),
    Direction.LOOSENED: (">", "green"),
    Direction.NEWLY_LIMITED: ("+", "yellow"),
    Direction.NEWLY_UNLIMITED: ("-", "yellow"),
    Direction.UNCHANGED: ("=", "dim"),
    Direction.UNKNOWN: ("?", "yellow"),
}
SHARING: Final[Mapping[BucketSharing, str]] = {
    BucketSharing.SAME: "",
    BucketSharing.BEGUN: "",
    BucketSharing.ENDED: "",
    BucketSharing.SPLIT: "shared with fewer clients",
    BucketSharing.JOINED: "shared with more clients",
    BucketSharing.OTHER: "shared with other clients",
}
"""What the sharing of a bucket becomes, where that is news."""


def impact_sections(
    preview: Preview, *, max_rows: int | None = None
) -> tuple[RowSection, RowSection]:
    """Return other clients with another limit, and the limits that could apply before and cannot after the plan."""
    clients = () if preview.impact is None else preview.impact.affected
    never = () if preview.impact is None else preview.impact.new_shadows
    affected_rows = tuple(map(_affected_client_row, clients[:max_rows]))
    never_rows = tuple(
        DisplayRow(
            mark="·",
            colour="yellow",
            entity=entity_text(shadow.entity),
            key=str(shadow.key),
            before="",
            after="",
            note=f"{entity_text(shadow.by)} is closer",
        )
        for shadow in never[:max_rows]
    )
    return (
        RowSection(
            name="affected",
            title="Other clients with another limit",
            note="Clients with a limit or a login of their own: their limit before and after, and where it comes from.",
            rows=affected_rows,
            left_out=len(clients) - len(affected_rows),
        ),
        RowSection(
            name="never",
            title="Never applies after this plan",
            note="A closer limit applies to every client that these could match.",
            rows=never_rows,
            left_out=len(never) - len(never_rows),
            colour="yellow",
        ),
    )


def client_section(preview: Preview, live: QuotaState, *, max_rows: int) -> RowSection:
    """Return the limits of all known clients before and after the plan, those that change first."""
    impact = preview.impact
    after = apply_to(live, preview.plan.changes)
    limits = [
        AffectedPrincipal(principal=client, key=old.key, before=old, after=new)
        for client in (impact.principals if impact else ())
        for old, new in zip(
            resolve(live, client).effective, resolve(after, client).effective, strict=True
        )
        if old.source or new.source or old.unranked
    ]
    limits.sort(key=_is_same)
    return RowSection(
        name="clients",
        title="Limits of clients",
        note="Of clients with a limit or a login of their own; `kquota resolve` shows those of any client.",
        rows=tuple(map(_client_row, limits[:max_rows])),
        left_out=len(limits) - len(limits[:max_rows]),
        heads=("Now", "After this plan", "Effect"),
    )


def _is_same(row: AffectedPrincipal) -> bool:
    return (row.before.value, row.before.bucket) == (row.after.value, row.after.bucket)


def _client_row(affected: AffectedPrincipal) -> DisplayRow:
    row, effective = _affected_client_row(affected), affected.after
    lost = "".join(
        f"; instead of {entity_text(overridden.entity)} {limit(effective.key, overridden.value)}"
        for overridden in effective.overridden
    )
    return replace(
        row,
        after="the same" if _is_same(affected) else row.after,
        cause=row.note,
        note=f"shared by {sharing_text(effective)}{lost}" if effective.source else "",
    )


def warning_sentences(live: QuotaState, changes: Sequence[QuotaChange]) -> tuple[str, ...]:
    """Return warnings for a reviewer: changes that look like bits for bytes, limits that are unknown."""
    slips = (
        f"{entity_text(change.entity)}: {change.key} changes by a factor of exactly 8; limits are in bytes per second, not in bits"
        for change in bit_slips(changes)
    )
    unknown = (
        f"{parts_text(entity_parts)} limits {key}: {ranking_doubt(entity_parts)}, so that the effective limit of its"
        " clients before and after this plan is unknown"
        for entity_parts, key in unranked_limits(live, changes)
    )
    return (*slips, *unknown)


def ranking_doubt(entity_parts: EntityParts) -> str:
    """Return why the place of an entity among the levels is unknown."""
    if all(kind in ENTITY_TYPES for kind, _ in entity_parts):
        return "its ip is a host name or another spelling of an address, and brokers apply to an address the limit written last"
    return "its entity type is not one of Kafka's"


def _affected_client_row(affected: AffectedPrincipal) -> DisplayRow:
    mark, colour = _MARKS[affected.direction]
    return DisplayRow(
        mark=mark,
        colour=colour,
        entity=entity_text(own_entity(affected.principal)),
        key=str(affected.key),
        before=effective_text(affected.before),
        after=effective_text(affected.after),
        meaning=by_how_much(affected.direction, affected.factor),
        reason=SHARING[affected.sharing],
        note=" -> ".join(dict.fromkeys((_level(affected.before), _level(affected.after)))),
    )


def effective_text(effective: EffectiveLimit) -> str:
    """Return a limit for people: ``unknown``, ``unlimited`` or the value."""
    if not effective.is_known:
        return "unknown"
    return "unlimited" if effective.value is None else limit(effective.key, effective.value)


def sharing_text(effective: EffectiveLimit) -> str:
    """Return the clients that share a limit, by the metric tags that are set."""
    if effective.source is None:
        return UNSET
    if len(effective.bucket) == 1:
        return f"all connections of {quoted(effective.bucket[0])}"
    user, client_id = effective.bucket
    if user and client_id:
        return "no other client"
    return f"all client-ids of {quoted(user)}" if user else f"all users with {quoted(client_id)}"


def _level(effective: EffectiveLimit) -> str:
    if not effective.is_known:
        return "unknown"
    return "no limit" if effective.source is None else f"by {entity_text(effective.source)}"


def impact_lines(preview: Preview) -> tuple[str, ...]:
    """Return the effect of the plan, in sentences."""
    impact = preview.impact
    if impact is None or not preview.plan.changes:
        return ()
    lines: list[str] = []
    directions = [
        f"{impact.count(direction):,} {direction}"
        for direction in Direction
        if direction is not Direction.UNCHANGED and impact.count(direction)
    ]
    if directions:
        lines.append("For the clients they are written for: " + ", ".join(directions) + ".")
    if impact.principal_count:
        affected = impact.affected_count
        shared_count = len({row.principal for row in impact.affected if row.is_shared_anew})
        lines.append(
            f"Of {named_clients(impact.principal_count)}, "
            + ("1 gets another limit" if affected == 1 else f"{affected:,} get another limit")
            + (
                f", {shared_count:,} of them shared with other clients than before"
                * bool(shared_count)
            )
            + "."
        )
    if impact.new_shadows:
        lines.append(f"{count(len(impact.new_shadows), 'limit')} can never apply after this plan.")
    lines.extend(unmatched_lines(impact))
    lines.extend(
        f"The last {key} of the cluster is removed: brokers drop its per-client metrics (rates and throttle times);"
        " keep a default limit that never throttles to keep them."
        for key in impact.silent
    )
    return tuple(lines)


def unmatched_lines(impact: Impact) -> tuple[str, ...]:
    """Return a sentence for each limit whose client id is only the beginning of other ids."""
    return tuple(
        f"{entity_text(unmatched.entity)} matches no client with a limit or a login of its own; {unmatched.total:,}"
        f" client ids of such clients begin with its name, such as {quoted(unmatched.example)}. Kafka compares whole ids: limit the user, or each id."
        for unmatched in impact.unmatched[:MOST_UNMATCHED]
    )


MOST_UNMATCHED: Final = 8
"""Maximum number of such sentences."""
