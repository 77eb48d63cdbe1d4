"""Ranges of values that the trusted configuration sets for some entities, and the changes that a range approves."""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from reconciler.quota.keys import Key
from reconciler.quota.patterns import EVERYTHING, EntityPattern
from reconciler.quota.planner.plan import QuotaChange

UNIT_STEP: Final = 1000.0
"""The smallest factor between two unit prefixes: 10^3. Others are 1024, 10^6, 1024^2 and so on."""


class ValueRange(Struct, frozen=True, kw_only=True, gc=False):
    """The range of values that some entities may have for a key."""

    entities: EntityPattern
    key: Key
    # Smallest value; None = no bound. A minimum replaces the guard against mistakes in the unit.
    minimum: float | None = None
    maximum: float | None = None  # largest value; None = no bound
    # Namespaces of the documents that it applies to; empty = all.
    namespaces: frozenset[str] = frozenset()

    def covers(self, change: QuotaChange) -> bool:
        """Whether the range applies to the quota that a change writes."""
        return (
            self.key is change.key
            and self.entities.matches(change.entity)
            and (not self.namespaces or change.namespace in self.namespaces)
        )

    def approves(self, value: float) -> bool:
        """Whether the range approves this value for its entities, whatever the value before.

        Only a range for named entities approves, and only if its ends are less than a factor of :data:`UNIT_STEP` apart: then
        it never contains both a value and the same value in another unit.
        """
        return (
            self.entities != EVERYTHING
            and self.minimum is not None
            and self.maximum is not None
            and self.maximum < UNIT_STEP * self.minimum
            and self.minimum <= value <= self.maximum
        )


def range_of(change: QuotaChange, ranges: Iterable[ValueRange]) -> ValueRange:
    """Return the first range that covers a change, or one without bounds."""
    for value_range in ranges:
        if value_range.covers(change):
            return value_range
    return _UNBOUND[change.key]


def is_approved(
    change: QuotaChange, ranges: Iterable[ValueRange], granted: Iterable[ValueRange]
) -> bool:
    """Whether a range approves the new value of a change, or the value that it removes."""
    value = change.before if change.after is None else change.after
    return value is not None and any(
        range_of(change, ranges_of_key).approves(value) for ranges_of_key in (ranges, granted)
    )


_UNBOUND: Final = {key: ValueRange(entities=EVERYTHING, key=key) for key in Key}
