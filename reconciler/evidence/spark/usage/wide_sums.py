"""Sums in 64 bits, and in 38 digits where a series is too large for them.

Two sums can leave 64 bits, at 9.2 * 10^18 units: what a series holds (the cut rate of 10^13 for 10.6 days, 1 TB/s for
106 days), and what a limit that the series once reached lets pass from then on, used or not (a limit of 1 TB/s, 106 days
later). No limit, and one that was never reached, adds nothing (:func:`reconciler.evidence.spark.usage.throttle_windows.with_backlogs`). Spark then raises
ARITHMETIC_OVERFLOW, never a wrong figure, for sessions have ANSI mode (:func:`reconciler.evidence.spark.runtime.session.needs_ansi`); and
the work begins again in 38 digits, which takes longer.

What is a decimal is compared before it is divided: ``div`` of two decimals ends in 64 bits and wraps without an error.
"""

from typing import Final, Protocol, TypeVar

from pyspark.errors import PySparkException
from pyspark.sql import Column
from pyspark.sql import functions as fn

from reconciler.base.protocols import Progress
from reconciler.usage.throttle_models import MAX_TOTAL

OVERFLOW: Final = "ARITHMETIC_OVERFLOW"
"""The error class of a sum that leaves 64 bits."""

AGAIN: Final = "a series is too large for 64 bits; once more in 38 digits"

_DIGITS: Final = "decimal(28,0)"  # a sum of these has all 38 digits

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class WideComputation(Protocol[T_co]):
    """Something to try. It leaves nothing behind where it raises."""

    def __call__(self, *, wide: bool) -> T_co:
        """Do it, with 64 bits or with 38 digits."""
        ...


def tried(work: WideComputation[T], progress: Progress) -> T:
    """What ``work`` gives with 64 bits; if those are too few, with 38 digits.

    Args:
        work: What is done, once or twice.
        progress: Called for the second attempt.

    Raises:
        PySparkException: Anything but an overflow, or one of 38 digits.
    """
    try:
        return work(wide=False)
    except PySparkException as error:
        if OVERFLOW not in str(error):
            raise
    progress(AGAIN, 0, 0)
    return work(wide=True)


def amount(units: Column, *, wide: bool) -> Column:
    """What may be summed."""
    return units.cast(_DIGITS) if wide else units


def narrow(units: Column, *, wide: bool) -> Column:
    """64 bits again; cut where the core cuts a total."""
    return fn.least(units, fn.lit(MAX_TOTAL)).cast("bigint") if wide else units


def total(units: Column, *, wide: bool) -> Column:
    """A sum, in 64 bits."""
    return narrow(fn.sum(amount(units, wide=wide)), wide=wide)
