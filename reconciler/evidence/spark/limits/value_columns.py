"""Values of limits as columns: which numbers are the same limit. No joins here."""

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as fn

from reconciler.quota.keys import COLUMNS, EPSILON, RULES

_WHOLE: Final = tuple(str(key) for key in COLUMNS if RULES[key].is_integer)


def normal(key: Column, value: Column) -> Column:
    """A value such that two are equal exactly if ``quota.keys.same_value`` says so.

    Near a whole number a key of whole numbers is that number; NaN equals itself in Spark anyway.
    """
    near = key.isin(list(_WHOLE)) & (fn.abs(value - fn.rint(value)) <= fn.lit(EPSILON))
    return fn.when(near, fn.rint(value)).otherwise(value)
