"""The arithmetic of ``usage`` as native column expressions: whole numbers, the same for every input. No plans here.

Each function says which definition it equals; tests/evidence/spark/usage/test_integer_columns.py compares them. Spark's own division of
whole numbers is exact and rounds towards zero, which is why the rounding is written out.
"""

from pyspark.sql import Column
from pyspark.sql import functions as fn

from reconciler.usage.histogram import BOUNDS, STEPS
from reconciler.usage.samples import DAY_MS


def quotient(a: Column, b: Column) -> Column:
    """``a div b`` rounded towards zero: for numbers that are not negative the same as Python's ``//``.

    Always a bigint. Of decimals only where the quotient is known to fit one: else it wraps, in ANSI mode, too.
    """
    return fn.call_function("div", a, b)


def div_down(a: Column, b: Column) -> Column:
    """Python's ``a // b`` for any signs; b is not 0."""
    inexact = (a % b != 0) & ((a < 0) != (b < 0))
    return quotient(a, b) - fn.when(inexact, fn.lit(1)).otherwise(fn.lit(0))


def arrived(rate: Column, dt: Column) -> Column:
    """``a_i`` of the throttle model: what arrived in ``dt`` milliseconds, rounded half up."""
    return quotient(rate * dt.cast("bigint") + fn.lit(500), fn.lit(1000))


def bounds() -> Column:
    """``histogram.BOUNDS`` as one array, a constant of the plan (one text: a literal each would be a call each)."""
    return fn.expr(f"array({','.join(f'{bound}L' for bound in BOUNDS)})")


def bucket_index(units: Column) -> Column:
    """``histogram.bucket_index``: a logarithm's guess, corrected by one against the bounds.

    Bucket i holds BOUNDS[i-1] <= x < BOUNDS[i]; ``get`` counts from 0 and gives null outside.
    """
    guess = fn.floor(fn.lit(float(STEPS)) * fn.log2(units.cast("double"))).cast("int") + fn.lit(1)
    low = fn.get(bounds(), guess - fn.lit(1))
    high = fn.get(bounds(), guess)
    correction = (
        fn.when(units < low, fn.lit(-1)).when(units >= high, fn.lit(1)).otherwise(fn.lit(0))
    )
    return fn.when(units == 0, fn.lit(0)).otherwise(guess + correction)


def largest_in(index: Column) -> Column:
    """``histogram.largest_in``."""
    return fn.get(bounds(), index) - fn.lit(1).cast("bigint")


def day(ts_ms: Column) -> Column:
    """The day of a moment, UTC, whatever the session's time zone."""
    return fn.date_from_unix_date(div_down(ts_ms, fn.lit(DAY_MS)).cast("int"))
