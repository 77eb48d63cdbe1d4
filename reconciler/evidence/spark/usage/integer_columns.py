"""The integer arithmetic of ``usage`` as native column expressions, with equal results for every input. No plans here.

Each docstring states the equal definition; tests/evidence/spark/usage/test_integer_columns.py compares them. Spark's integer
division is exact and rounds towards zero, so other rounding is explicit.
"""

from pyspark.sql import Column
from pyspark.sql import functions as fn

from reconciler.usage.histogram import BOUNDS, STEPS


def quotient(a: Column, b: Column) -> Column:
    """Return ``a div b`` rounded towards zero: for non-negative numbers equal to Python's ``//``.

    Always a bigint. For decimals only if the quotient fits a bigint: otherwise it wraps, even in ANSI mode.
    """
    return fn.call_function("div", a, b)


def arrived(rate: Column, dt: Column) -> Column:
    """Return ``a_i`` of the throttle model: the units that arrived in ``dt`` milliseconds, rounded half up."""
    return quotient(rate * dt.cast("bigint") + fn.lit(500), fn.lit(1000))


def bounds() -> Column:
    """Return ``histogram.BOUNDS`` as one constant array (as one text: each literal of its own would cost a call to the JVM)."""
    return fn.expr(f"array({','.join(f'{bound}L' for bound in BOUNDS)})")


def bucket_index(units: Column) -> Column:
    """Return ``histogram.bucket_index``: an estimate by logarithm, corrected by at most one against the bounds.

    Bucket i contains BOUNDS[i-1] <= x < BOUNDS[i]; ``get`` counts from 0 and returns null outside.
    """
    guess = fn.floor(fn.lit(float(STEPS)) * fn.log2(units.cast("double"))).cast("int") + fn.lit(1)
    low = fn.get(bounds(), guess - fn.lit(1))
    high = fn.get(bounds(), guess)
    correction = (
        fn.when(units < low, fn.lit(-1)).when(units >= high, fn.lit(1)).otherwise(fn.lit(0))
    )
    return fn.when(units == 0, fn.lit(0)).otherwise(guess + correction)


def largest_in(index: Column) -> Column:
    """Return ``histogram.largest_in``."""
    return fn.get(bounds(), index) - fn.lit(1).cast("bigint")
