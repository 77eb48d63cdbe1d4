"""Overrides on the screen and as JSON: one row each, for every way in which they are kept."""

from collections.abc import Sequence

from reconciler.base.escaping import escaped
from reconciler.cli.framework.console import Console
from reconciler.cli.output.plans import style_of
from reconciler.quota.entity_forms import entity_json, entity_text
from reconciler.quota.ownership import Override
from reconciler.render import units
from reconciler.render.json_values import Json, value_json
from reconciler.render.table import table
from reconciler.render.units import instant


def row(record: Override, now: float) -> Json:
    """An override as JSON."""
    return {
        "entity": entity_json(record.entity),
        "key": str(record.key),
        "value": value_json(record.value),
        "declared": value_json(record.declared),
        "before": value_json(record.before),
        "until": instant(record.until),
        "expired": now >= record.until,
        "endsWithDocument": record.ends_with_document,
        "who": record.author,
        "reason": record.reason,
    }


def table_of(console: Console, overrides: Sequence[Override], now: float) -> None:
    """Overrides as a table."""
    if not overrides:
        console.fact("no overrides")
        return
    rows = [
        [
            entity_text(record.entity),
            str(record.key),
            units.limit(record.key, record.value) if record.value is not None else "unset",
            units.limit(record.key, record.declared) if record.declared is not None else "not declared",
            f"{units.age(record.until - now)} left" if now < record.until else "expired, not reverted",
            escaped(record.author),
            escaped(record.reason),
        ]
        for record in overrides
    ]  # fmt: skip
    heads = ("ENTITY", "KEY", "VALUE", "DECLARED", "UNTIL", "WHO", "REASON")
    console.fact("\n".join(table(rows, heads=heads, style=style_of(console))))
