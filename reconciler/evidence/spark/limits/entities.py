"""Entities and values as columns: which limits can be computed with, and equality of values."""

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as fn

from reconciler.quota.keys import COLUMNS, EPSILON, RULES
from reconciler.quota.patterns import FORMS


def is_known() -> Column:
    """Whether a row of ``quota_entry`` has a known key and a form of entity that Kafka's quota managers support."""
    kinds = fn.concat_ws(" ", "user_kind", "client_kind", "ip_kind")
    is_known_key = fn.col("quota_key").isin([str(key) for key in COLUMNS])
    return is_known_key & kinds.isin([" ".join(form) for form in FORMS])


_WHOLE: Final = tuple(str(key) for key in COLUMNS if RULES[key].is_integer)


def normal(name: str) -> Column:
    """Normalize a value such that two are equal exactly if ``quota.keys.same_value`` is true.

    For integer keys a value near a whole number becomes that number; NaN equals itself in Spark anyway.
    """
    value = fn.col(name)
    near = fn.col("quota_key").isin(list(_WHOLE)) & (
        fn.abs(value - fn.rint(value)) <= fn.lit(EPSILON)
    )
    return fn.when(near, fn.rint(value)).otherwise(value)
