"""Entities and values as columns: the level of an entity, and equality of values."""

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as fn

from reconciler.quota.entity import ABSENT, DEFAULT, Entity, Slot
from reconciler.quota.entity import level as level_of
from reconciler.quota.keys import COLUMNS, EPSILON, RULES
from reconciler.quota.patterns import FORMS

_SLOTS: Final[dict[str, Slot]] = {"named": "a", "default": DEFAULT, "absent": ABSENT}
LEVELS: Final = {
    (user, client_id, ip): level_of(Entity((_SLOTS[user], _SLOTS[client_id], _SLOTS[ip])))
    for user, client_id, ip in FORMS
}
"""The level by the kinds of the three slots, from ``quota.entity``."""

NAMES: Final = ("user", "client_id", "ip")
"""The name columns of the three slots."""


def level(user_kind: Column, client_kind: Column, ip_kind: Column) -> Column:
    """Return ``quota.entity.level`` of the kinds of ``quota_entry``; null for a form that Kafka's quota managers do not support."""
    cases = [
        fn.when((user_kind == user) & (client_kind == client_id) & (ip_kind == ip), fn.lit(number))
        for (user, client_id, ip), number in LEVELS.items()
    ]
    return fn.coalesce(*cases)


_WHOLE: Final = tuple(str(key) for key in COLUMNS if RULES[key].is_integer)


def normal(key: Column, value: Column) -> Column:
    """Normalize a value such that two are equal exactly if ``quota.keys.same_value`` is true.

    For integer keys a value near a whole number becomes that number; NaN equals itself in Spark anyway.
    """
    near = key.isin(list(_WHOLE)) & (fn.abs(value - fn.rint(value)) <= fn.lit(EPSILON))
    return fn.when(near, fn.rint(value)).otherwise(value)
