"""Overrides on the screen and as JSON: one row each, for every way in which they are kept."""

from collections.abc import Sequence

from reconciler.cli.console import Console
from reconciler.cli.showing import style_of
from reconciler.quota.owned import Override
from reconciler.render import units
from reconciler.render.documents import Json, entity_json, value_json
from reconciler.render.names import entity_text, escaped
from reconciler.render.table import table
from reconciler.render.units import instant


def row(one: Override, now: float) -> Json:
    """An override as JSON."""
    return {
        "entity": entity_json(one.entity),
        "key": str(one.key),
        "value": value_json(one.value),
        "declared": value_json(one.declared),
        "before": value_json(one.before),
        "until": instant(one.until),
        "expired": now >= one.until,
        "endsWithDocument": one.ends_with_document,
        "who": one.who,
        "reason": one.reason,
    }


def table_of(console: Console, found: Sequence[Override], now: float) -> None:
    """Overrides as a table."""
    if not found:
        console.fact("no overrides")
        return
    rows = [
        [
            entity_text(one.entity),
            str(one.key),
            units.limit(one.key, one.value) if one.value is not None else "unset",
            units.limit(one.key, one.declared) if one.declared is not None else "not declared",
            f"{units.age(one.until - now)} left" if now < one.until else "expired, not reverted",
            escaped(one.who),
            escaped(one.reason),
        ]
        for one in found
    ]  # fmt: skip
    heads = ("ENTITY", "KEY", "VALUE", "DECLARED", "UNTIL", "WHO", "REASON")
    console.fact("\n".join(table(rows, heads=heads, style=style_of(console))))
