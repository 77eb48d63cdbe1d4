"""Overrides for people and programs: until when each is in force, who set it, and what was declared when it began."""

from collections.abc import Sequence

from reconciler.base.escaping import escaped
from reconciler.quota.entity_forms import entity_json, entity_text
from reconciler.quota.overrides import Override
from reconciler.render import units
from reconciler.render.json_values import Json, value_json
from reconciler.render.table import Style, table


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
