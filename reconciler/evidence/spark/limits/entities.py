"""Entities and values as columns: slots of ``entity_json``, levels of their kinds, which patterns mean them, which values are the same."""

from collections.abc import Callable
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as fn

from reconciler.quota.entity import ABSENT, DEFAULT, ENTITY_TYPES, Entity, Slot
from reconciler.quota.entity import level as level_of
from reconciler.quota.keys import COLUMNS, EPSILON, RULES
from reconciler.quota.patterns import FORMS, EntityForm, EntityPattern, NamePattern

_SLOTS: Final[dict[str, Slot]] = {"named": "a", "default": DEFAULT, "absent": ABSENT}
LEVELS: Final = {
    (user, client_id, ip): level_of(Entity((_SLOTS[user], _SLOTS[client_id], _SLOTS[ip])))
    for user, client_id, ip in FORMS
}
"""Kinds of the three slots -> level, as the core says."""

_LEVEL_OF_FORM: Final[dict[EntityForm, int]] = {
    form: LEVELS[kinds] for kinds, form in FORMS.items()
}

NAMES: Final = ("user", "client_id", "ip")
"""The columns of the names in the three slots."""

PATTERN: Final = (
    "struct<levels:array<int>,user_exact:string,user_prefix:string,client_id_exact:string,client_id_prefix:string,"
    "ip_exact:string,ip_prefix:string,quota_keys:array<string>>"
)
"""The type of :func:`pattern_row`."""

PatternRow = tuple[
    list[int], str | None, str | None, str | None, str | None, str | None, str | None, list[str]
]


def level(user_kind: Column, client_kind: Column, ip_kind: Column) -> Column:
    """``quota.entity.level`` of the kinds of ``quota_entry``; null for a shape that Kafka's managers do not know."""
    cases = [
        fn.when((user_kind == user) & (client_kind == client_id) & (ip_kind == ip), fn.lit(number))
        for (user, client_id, ip), number in LEVELS.items()
    ]
    return fn.coalesce(*cases)


def slots(entity_json: Column) -> Column:
    """A struct of ``user_kind``, ``user``, ``client_kind``, ``client_id``, ``ip_kind`` and ``ip``, names "" where there is none."""
    parts = fn.from_json(entity_json, "array<array<string>>")
    fields: list[Column] = []
    for kind, column in zip(ENTITY_TYPES, NAMES, strict=True):
        part = fn.get(fn.filter(parts, _of_type(kind)), fn.lit(0))
        name = fn.get(part, fn.lit(1))
        shape = fn.when(part.isNull(), fn.lit("absent")).when(name.isNull(), fn.lit("default"))
        kind_column = f"{column.partition('_')[0]}_kind"
        fields.append(shape.otherwise(fn.lit("named")).alias(kind_column))
        fields.append(fn.coalesce(name, fn.lit("")).alias(column))
    return fn.struct(*fields)


def pattern_row(pattern: EntityPattern, keys: frozenset[str] = frozenset()) -> PatternRow:
    """A pattern as a value of :data:`PATTERN`, for these keys; none = all."""
    user, client_id, ip = pattern.user, pattern.client_id, pattern.ip
    return (
        sorted(_LEVEL_OF_FORM[form] for form in pattern.covered_forms),
        *_name(user),
        *_name(client_id),
        *_name(ip),
        sorted(keys),
    )


def meant(patterns: Column, actual_types: Column, number: Column, key: Column) -> Column:
    """Whether one of the patterns covers the entity (``EntityPattern.matches``) and the key.

    Args:
        patterns: An array of :data:`PATTERN`.
        actual_types: :func:`slots`.
        number: :func:`level`.
        key: The quota key.
    """

    def covers(slot: Column) -> Column:
        fits = fn.array_contains(slot["levels"], number)
        for column in NAMES:
            kind, name = actual_types[f"{column.partition('_')[0]}_kind"], actual_types[column]
            exact, prefix = slot[f"{column}_exact"], slot[f"{column}_prefix"]
            fits = fits & (
                (kind != "named")
                | (exact.isNull() & prefix.isNull())
                | fn.coalesce(name == exact, name.startswith(prefix))
            )
        return fits & (
            (fn.size(slot["quota_keys"]) == 0) | fn.array_contains(slot["quota_keys"], key)
        )

    return fn.exists(patterns, covers)


def _of_type(kind: str) -> Callable[[Column], Column]:
    # PySpark counts the parameters of a lambda: a default for the loop's value would be taken for the index.
    return lambda types: fn.get(types, fn.lit(0)) == kind


def _name(pattern: NamePattern | None) -> tuple[str | None, str | None]:
    return (None, None) if pattern is None else (pattern.exact, pattern.prefix)


_WHOLE: Final = tuple(str(key) for key in COLUMNS if RULES[key].is_integer)


def normal(key: Column, value: Column) -> Column:
    """A value such that two are equal exactly if ``quota.keys.same_value`` says so.

    Near a whole number a key of whole numbers is that number; NaN equals itself in Spark anyway.
    """
    near = key.isin(list(_WHOLE)) & (fn.abs(value - fn.rint(value)) <= fn.lit(EPSILON))
    return fn.when(near, fn.rint(value)).otherwise(value)
