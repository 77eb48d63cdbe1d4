"""The arithmetic of ``usage`` as native column expressions: whole numbers, the same for every input. No plans here.

Each function says which definition it equals; tests/spark/test_columns.py compares them. Spark's own division of
whole numbers is exact and rounds towards zero, which is why the rounding is written out.
"""

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as fn

from reconciler.usage.candidates import COARSE, FINE, POWERS
from reconciler.usage.histogram import BOUNDS, STEPS
from reconciler.usage.samples import DAY_MS, KEY_OF, MAX_UNITS, MILLION, SCALE, ValueState
from reconciler.usage.throttle import LONGEST_MS

_SCALE_OF_KEY: Final = {str(KEY_OF[kind]): scale for kind, scale in SCALE.items()}
_MOST_DIGITS: Final = 19


def quotient(a: Column, b: Column) -> Column:
    """``a div b`` rounded towards zero: for numbers that are not negative the same as Python's ``//``."""
    return fn.call_function("div", a, b)


def div_down(a: Column, b: Column) -> Column:
    """Python's ``a // b`` for any signs; b is not 0."""
    inexact = (a % b != 0) & ((a < 0) != (b < 0))
    return quotient(a, b) - fn.when(inexact, fn.lit(1)).otherwise(fn.lit(0))


def div_up(a: Column, b: Column) -> Column:
    """Python's ``-(-a // b)``."""
    return -div_down(-a, b)


def scale(kind: Column) -> Column:
    """``samples.SCALE`` of a quota type; null for anything else."""
    return _chosen(kind, {str(one): units for one, units in SCALE.items()})


def scale_of_key(key: Column) -> Column:
    """``samples.SCALE`` of a quota key, such as producer_byte_rate; null for anything else."""
    return _chosen(key, _SCALE_OF_KEY)


def _chosen(column: Column, values: Mapping[str, int]) -> Column:
    found: Column | None = None
    for name, value in values.items():
        found = (
            fn.when(column == name, fn.lit(float(value)))
            if found is None
            else found.when(column == name, fn.lit(float(value)))
        )
    if found is None:
        raise ValueError("nothing to choose from")
    return found


def half_up(value: Column) -> Column:
    """``samples.half_up``: a bigint of a double."""
    return fn.floor(value + fn.lit(0.5)).cast("bigint")


def rate_units(rate: Column, scales: Column) -> Column:
    """``samples.rate_units``; null for null and for what is not a number.

    Args:
        rate: A double in Kafka's own unit.
        scales: :func:`scale` or :func:`scale_of_key`.
    """
    scaled = rate * scales
    return (
        fn.when(rate.isNull() | fn.isnan(rate), fn.lit(None).cast("bigint"))
        # NaN is Spark's largest number, so it has to be gone by here.
        .when(scaled >= fn.lit(float(MAX_UNITS)), fn.lit(MAX_UNITS))
        .when(scaled > fn.lit(0.0), half_up(scaled))
        .otherwise(fn.lit(0).cast("bigint"))
    )


def limit_state(value: Column, scales: Column) -> Column:
    """``samples.limit_state``; null is unlimited."""
    return (
        fn.when(value.isNull(), fn.lit(str(ValueState.UNLIMITED)))
        .when(fn.isnan(value) | (value <= 0), fn.lit(str(ValueState.INVALID)))
        .when(value * scales >= fn.lit(float(MAX_UNITS)), fn.lit(str(ValueState.UNLIMITED)))
        .otherwise(fn.lit(str(ValueState.FINITE)))
    )


def limit_units(value: Column, scales: Column) -> Column:
    """``samples.limit_units``; null for unlimited and for invalid, which :func:`limit_state` tells apart."""
    finite = limit_state(value, scales) == fn.lit(str(ValueState.FINITE))
    units = fn.greatest(fn.lit(1).cast("bigint"), half_up(value * scales))
    return fn.when(finite, fn.least(units, fn.lit(MAX_UNITS - 1)))


def arrived(rate: Column, dt: Column) -> Column:
    """``a_i`` of the throttle model: what arrived in ``dt`` milliseconds, rounded half up."""
    return quotient(rate * dt.cast("bigint") + fn.lit(500), fn.lit(1000))


def passed(limit: Column, dt: Column) -> Column:
    """``g_i`` of the throttle model: what a limit lets pass in ``dt`` milliseconds."""
    return quotient(limit * dt.cast("bigint"), fn.lit(1000))


def delay_ms(units: Column, limit: Column) -> Column:
    """``throttle.delay_ms``, in the same steps, which fit 64 bits, and cut where that cuts. Units may be a decimal."""
    most = fn.lit(LONGEST_MS // 1000)
    whole = quotient(units, limit)
    part = quotient((units % limit).cast("bigint") * fn.lit(1000), limit)
    return fn.when(whole >= most, fn.lit(LONGEST_MS)).otherwise(
        whole.cast("bigint") * fn.lit(1000) + part
    )


def share_ppm(part: Column, whole: Column) -> Column:
    """``throttle.share_ppm``: millionths, rounded up; 0 of no time at all is 0."""
    return fn.when(whole > 0, div_up(part * fn.lit(MILLION), whole)).otherwise(
        fn.lit(0).cast("bigint")
    )


def bounds() -> Column:
    """``histogram.BOUNDS`` as one array, a constant of the plan (one text: a literal each would be a call each)."""
    return fn.expr(f"array({','.join(f'{one}L' for one in BOUNDS)})")


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


def coarse(peak: Column) -> tuple[Column, ...]:
    """``candidates.coarse``: the first round of limits to try, from the peak down."""
    eighths = len(POWERS)
    return tuple(
        div_up(peak * fn.lit(POWERS[k % eighths]), fn.lit(POWERS[0] << k // eighths))
        for k in range(COARSE)
    )


def fine(below: Column, holds: Column) -> tuple[Column, ...]:
    """``candidates.fine``: the second round, ascending; the last is ``holds``."""
    return tuple(
        below - div_down((below - holds) * fn.lit(step), fn.lit(FINE))
        for step in range(1, FINE + 1)
    )


def three_digits(value: Column, *, up: bool) -> Column:
    """``candidates.three_digits`` of a number that is not negative."""
    powers = fn.expr(f"array({','.join(f'{10**n}L' for n in range(_MOST_DIGITS - 2))})")
    digits = fn.length(value.cast("string"))
    step = fn.get(powers, fn.greatest(fn.lit(0), digits - fn.lit(3)))
    return (div_up(value, step) if up else div_down(value, step)) * step


def day(ts_ms: Column) -> Column:
    """The day of a moment, UTC, whatever the session's time zone."""
    return fn.date_from_unix_date(div_down(ts_ms, fn.lit(DAY_MS)).cast("int"))
